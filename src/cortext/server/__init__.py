"""Sessions in PostgreSQL: the store protocol on a server, with leases instead of file locks. The database driver is
imported here (`driver`) and nowhere else, and all SQL stays in this package.
"""
