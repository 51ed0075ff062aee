"""`cortext trust`: let the settings of this workspace do everything."""

from __future__ import annotations

from argparse import ArgumentParser

from cortext import config
from cortext.safety import terminal
from cortext.wiring import Wiring


def parser() -> ArgumentParser:
    """The command line."""
    return ArgumentParser(
        prog="cortext trust",
        description="A workspace comes with settings of its own (.workspace/config.toml), perhaps from a stranger's "
        "repository. Those that could run commands, send data elsewhere or move stores are ignored until you say this. "
        "When the file changes, it is asked about again.",
    )


def run(arguments: list[str]) -> int:
    """Show what was ignored, and trust it."""
    parser().parse_args(arguments)
    wiring = Wiring()
    root = wiring.workspace_store().root
    for name in sorted(wiring.settings.ignored):
        print(terminal.line(f"  {name} was ignored until now"))
    config.trust(root)
    print(terminal.line(f"Trusted: the settings of {root}, as they are now."))
    return 0
