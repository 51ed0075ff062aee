"""Talking to a model: agents, sessions, context and turns."""
