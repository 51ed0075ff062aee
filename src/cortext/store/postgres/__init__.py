"""Sessions in PostgreSQL. The database driver is imported here and nowhere else."""
