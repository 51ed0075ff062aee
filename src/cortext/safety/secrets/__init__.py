"""Finding and masking secrets in text: by their form, by their shape, and by the words that announce them. Pure.

Masking of messages and of stores belongs in `services/text` and `services/workspace`.
"""
