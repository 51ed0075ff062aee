"""Which conversation a line, a commit or a file comes from: edits in tool calls, matched by content with git's history.

Nothing here guesses from time: an edit counts only if it wrote the very lines, and time only excludes edits.
"""
