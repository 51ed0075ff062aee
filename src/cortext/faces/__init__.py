"""What people and programs see of the core: `cortext`, MCP, and what terminals share. Only faces and rooms print.

Decisions belong in `services`.
"""
