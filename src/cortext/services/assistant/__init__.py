"""The assistant: its chats, their context and summaries, its memory, and the work done in the background."""
