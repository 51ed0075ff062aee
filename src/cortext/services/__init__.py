"""What a face or a room asks for, in one order (pyproject.toml has it), each importing only those before it: text and
projects, digest, library, capture, cost and origin, workspace, resume, events and doctor.

Nothing here prints, asks a person, or names a concrete store or tool.
"""
