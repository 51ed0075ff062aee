"""The only package that names concrete classes: `stores`, `tools`, `models` and `assistant` build what a face needs.

Nothing is decided here; that is for services.
"""
