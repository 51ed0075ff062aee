"""Aider: reading its chat histories, and writing sessions into histories of our own."""
