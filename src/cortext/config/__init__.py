"""Settings: `schema` declares them, `load` reads them, `trust` knows the trusted workspaces; `folders` has our paths.

Nothing here opens a store, asks a model or starts a program.
"""
