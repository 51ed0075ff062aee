"""Cursor: reading its conversations."""
