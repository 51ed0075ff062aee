"""Pi: reads and writes its sessions, and installs commands for it."""
