"""A workspace: its setup, its conversation types, the life cycle of its conversations, git, and doctor.

Lists, search and export of what is stored belong in `services/library`.
"""
