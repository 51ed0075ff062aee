"""Goose: reading its sessions."""
