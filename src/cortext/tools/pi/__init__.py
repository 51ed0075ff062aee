"""Pi: reads and writes its sessions, and installs commands and an extension for it."""
