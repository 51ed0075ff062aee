"""Kimi Code: reading and writing its sessions, installing our skills and MCP server."""
