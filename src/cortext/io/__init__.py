"""The only modules that write to disk: files, batches of files, locks, JSON Lines.

What the bytes mean belongs in `store` and `tools`.
"""
