"""The only package that names concrete classes: `stores`, `tools`, `models` and `assistant` build what a face needs.

Decisions belong in services.
"""
