"""Pure checks and transformations of untrusted text: terminal output, paths, addresses, borders, secrets.

Nothing here reads or writes files; what needs the disk belongs in `io` or `store`.
"""
