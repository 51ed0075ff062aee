"""Sessions in PostgreSQL: the store protocol on a server, with leases instead of file locks. The database driver is
imported here (`driver`) and nowhere else, and all SQL for it stays in this package.

What is true of every store belongs in `store`, whose protocols this room implements.
"""
