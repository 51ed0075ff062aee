"""Crush: reading its sessions."""
