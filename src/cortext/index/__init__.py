"""What is derived from the stores and can be deleted: the catalogue, the list of sessions, and search."""
