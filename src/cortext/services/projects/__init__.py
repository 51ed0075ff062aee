"""Which folder, repository and workspace a conversation belongs to, and git itself.

Knows folders, git and the list of workspaces, but no session, store or index beyond what is recorded in one.
"""
