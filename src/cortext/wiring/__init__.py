"""The only package that names concrete classes: `stores` and `tools` build what a face or a room needs.

Decisions belong in services.
"""
