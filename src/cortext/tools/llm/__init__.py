"""llm, the command-line program: reading its log."""
