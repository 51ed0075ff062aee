"""Code that adapters share. Reading: lines, cursor, tree (records with parents), documents, values, reading, building
(messages from parts), google_parts, typed (what a user typed), folders, sqlite and rows (databases), bundle (several
files as one), exports (archives), vscode (folders of editors). Config files: jsonc, entries, installer, trust.
Programs: program, hooks, headless, mcp_servers. Native sessions: mark, written, verify.
Knowledge of a single tool belongs in its adapter, and adapters do not import each other.
"""
