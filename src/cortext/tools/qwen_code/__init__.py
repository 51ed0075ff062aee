"""Qwen Code: reads and writes its sessions, and installs commands, hooks and the MCP server for it."""
