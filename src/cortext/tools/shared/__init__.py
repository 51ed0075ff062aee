"""Code that adapters share. Adapters: parts, program, hooks, folders. Reading: lines, values, reading, bundle (several
files as one), rows and sqlite (databases), exports (archives), vscode (folders of editors), building and google_parts
(messages from parts), inline_images, leftovers (what is in a store beside the transcripts). Native sessions: native.
Projects: installer, entries, jsonc (config files), commands.
Knowledge of a single tool belongs in its adapter, and adapters do not import each other.
"""
