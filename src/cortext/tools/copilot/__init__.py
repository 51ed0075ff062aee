"""GitHub Copilot CLI: reads and writes its event files, and installs skills, hooks and the MCP server for it."""
