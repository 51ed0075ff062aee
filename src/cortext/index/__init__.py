"""What is derived from the stores and can be deleted: the catalogue (and, later, search)."""
