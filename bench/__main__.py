"""Run a measurement: python -m bench NAME [option …]. Without a name, list them; `--help` after one explains it."""

from __future__ import annotations

import importlib
import sys

# The names, by the file with their subject; each is the function `run_NAME` there. bench/README.md has their figures.
SUBJECTS = {
    "sessions": ("append", "load"),
    "memory": ("memory", "huge", "hostile"),
    "imports": ("import", "import_tools", "import_peers"),
    "importer": ("importer",),
    "commands": ("startup", "hook", "list", "packet_time"),
    "install_size": ("install_size",),
    "cost": ("cost",),
    "packet": ("packet",),
    "summaries": ("summaries",),
    "search": ("search", "search_corpus", "search_peers", "vectors_memory"),
    "quality": ("quality",),
    "train_ranker": ("train_ranker",),
    "watch": ("watch", "noticing"),
    "web": ("web", "web_live", "web_parts"),
    "why": ("why", "things"),
    "agents": ("alfred", "aur"),
    "postgres": ("postgres",),
}


def main() -> None:
    """Run the measurement that the command line names."""
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    subject = next((subject for subject, names in SUBJECTS.items() if name in names), "")
    if not subject:
        print(__doc__, *(f"  {each}: {', '.join(names)}" for each, names in SUBJECTS.items()), sep="\n")
        raise SystemExit(0 if name in ("", "-h", "--help") else 2)
    del sys.argv[1]
    raise SystemExit(getattr(importlib.import_module(f"bench.{subject}"), f"run_{name}")())


if __name__ == "__main__":
    main()
