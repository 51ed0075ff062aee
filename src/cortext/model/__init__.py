"""The nouns of the product, pure: no files, no network, and no time except through `clock`.

What is derived from a conversation's text belongs in `services/text`.
"""
