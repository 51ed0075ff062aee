"""Text derived from messages without a model: titles, summaries, decisions, edits, and what may leave a store."""
