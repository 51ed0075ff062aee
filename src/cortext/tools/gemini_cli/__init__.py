"""Gemini CLI: reading and writing its chats, installing our commands and hooks."""
