"""Codex: reading and writing its rollouts, installing our skills and hooks."""
