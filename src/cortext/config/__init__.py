"""Settings: `schema` declares them, `load` reads them, `trust` lists the trusted workspaces; `folders` has our paths.

Nothing here opens a store, calls a model or starts a program.
"""
