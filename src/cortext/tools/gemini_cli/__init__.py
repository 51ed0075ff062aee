"""Gemini CLI: reading and writing its sessions, installing our commands and hooks."""
