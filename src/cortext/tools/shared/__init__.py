"""Code that adapters share: lines (reading transcripts), jsonc, entries and installer (our entries in the tools' config
files), program (finding and running a tool's program), hooks, headless, mcp_servers, mark and verify (native sessions).
Knowledge of a single tool belongs in its adapter, and adapters do not import each other.
"""
