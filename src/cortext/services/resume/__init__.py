"""Continuing a conversation: what is handed to a tool or a model, and the receipt of what crossed.

Writing native sessions belongs in `tools`, capturing transcripts in `services/capture`.
"""
