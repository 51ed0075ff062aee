"""The MCP server: typed calls, their schemas, and answers that are bounded in tokens."""
