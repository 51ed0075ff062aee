"""Continuing a conversation: the packet that an agent receives, and the receipt of what crossed."""
