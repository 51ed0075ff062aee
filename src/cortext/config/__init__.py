"""Settings: `schema` declares them, `load` reads them and knows which workspaces are trusted; `folders` has our paths.

Nothing here opens a store, calls a model or starts a program.
"""
