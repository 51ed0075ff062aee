"""What happens in an AI tool while it runs: its hook events, and the commands that a user types there.

Nothing that must happen is left to the model.
"""
