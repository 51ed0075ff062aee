"""Text derived from messages without a model: titles, summaries, decisions, edits, and what may leave a store.

What is derived from tool calls belongs in `services/digest`; nothing here lists or changes sessions.
"""
