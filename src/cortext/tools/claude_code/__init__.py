"""Claude Code: reads and writes its transcripts, and installs commands, hooks and the MCP server for it."""
