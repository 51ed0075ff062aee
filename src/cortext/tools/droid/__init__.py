"""Droid, by Factory: reading its sessions."""
