"""What the adapters share: reading lines, finding programs, MCP entries. Adapters do not import each other."""
