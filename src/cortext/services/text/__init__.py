"""Text derived from messages without a model: titles, summaries, digests, decisions, masked and rendered messages."""
