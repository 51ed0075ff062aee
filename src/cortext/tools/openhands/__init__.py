"""OpenHands CLI: reading its conversations."""
