"""Everything derived from the stores that can be deleted and rebuilt: the catalogue, the session list and search.

Nothing here is the only copy of anything; what must survive belongs in `store`.
"""
