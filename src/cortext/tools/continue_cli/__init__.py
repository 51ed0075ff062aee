"""Continue (`cn`): reading and writing its sessions. It has no hooks and no settings of a project."""
