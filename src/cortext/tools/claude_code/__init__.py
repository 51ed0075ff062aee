"""Claude Code: reading and writing its transcripts, installing our commands and hooks."""
