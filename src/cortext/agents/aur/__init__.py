"""The command `aur`: agents in the terminal, one-shot questions, and their sessions.

Turns with a model belong in `agents/talk`, the prompt in `agents/terminal`.
"""
