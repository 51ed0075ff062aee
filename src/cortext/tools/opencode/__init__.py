"""OpenCode: reading and writing its sessions, installing our commands and plugin."""
