"""The MCP server: typed calls, their schemas, and answers that are bounded in tokens.

What is found belongs in `services/library`; what the model is told of a conversation, in `services/resume`.
"""
