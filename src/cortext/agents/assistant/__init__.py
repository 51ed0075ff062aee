"""The assistant: its chats, their context and summaries, its memory, and the background worker.

Turns with a model belong in `agents/talk`; what is specific to a terminal or a messenger belongs in
`agents/alfred` and `agents/telegram`.
"""
