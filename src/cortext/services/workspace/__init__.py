"""A workspace: its setup, its conversation types, the life cycle of its conversations, and their commits.

Git itself belongs in `services/projects`, what is wrong with a store in `services/doctor`; lists, search and export
of what is stored belong in `services/library`.
"""
