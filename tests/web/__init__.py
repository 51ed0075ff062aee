"""The page: as a server that is asked by hand, and in a real browser."""
