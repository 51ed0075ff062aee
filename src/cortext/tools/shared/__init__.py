"""Code that adapters share. Adapters: parts, program, folders. Reading: lines, values, reading, bundle (rows of a
database or several files as one conversation), sqlite, exports (archives), vscode (folders of editors), building
(messages from parts), leftovers (what is in a store beside the transcripts). Native sessions: native.
Projects: installer, entries, jsonc (config files), commands (with hooks).
Knowledge of a single tool belongs in its adapter, and adapters do not import each other.
"""
