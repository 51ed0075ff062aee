"""The only modules that write to the disk: files, batches of files, locks, JSON lines."""
