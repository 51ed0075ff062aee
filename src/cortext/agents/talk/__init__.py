"""Conversations with a model: agents, sessions of agents, the context that is sent, and turns.

What is specific to the assistant belongs in `agents/assistant`; prompts and screens belong in `agents/terminal`.
"""
