"""Claude.ai: reading the conversations of a data export."""
