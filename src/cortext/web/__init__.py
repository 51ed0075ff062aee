"""`cortext web`: the local page. Server-rendered HTML over the services that the commands use, and a little script.

Nothing here reads a store, a file of a conversation or an index by itself, and nothing is loaded from another host.
"""
