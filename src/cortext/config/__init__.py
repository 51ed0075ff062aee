"""Settings: what there is, where it is read from, and who may set it."""
