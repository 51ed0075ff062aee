"""How the help of quick commands is laid out: argparse would import shutil only to ask how wide the screen is."""

from __future__ import annotations

from argparse import HelpFormatter

from cortext.faces.terminal.style import columns


class Help(HelpFormatter):
    """Help as wide as the screen, or 100 columns where there is none."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=min(columns() or 100, 100))
