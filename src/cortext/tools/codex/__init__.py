"""Codex: reads and writes its rollouts, and installs skills, hooks and the MCP server for it."""
