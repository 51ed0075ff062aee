"""A workspace: setting it up, its types and states, git, and what its owner is told about it."""
