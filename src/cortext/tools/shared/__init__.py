"""What the adapters share: lines (reading transcripts), jsonc, entries and installer (what is ours in the tools' config
files), program (finding and running a tool's program), hooks, headless, mcp_servers, mark and verify (native sessions).
An adapter's own knowledge of its tool does not belong here, and adapters do not import each other.
"""
