"""Mistral Vibe: reads its sessions, writes folders that it imports, and installs skills, hooks and the MCP server."""
