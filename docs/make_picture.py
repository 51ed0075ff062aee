"""Draw docs/at-work.svg from the output of the real commands in the demo workspace: `python docs/make_picture.py`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.sax.saxutils import escape

HERE = Path(__file__).parent
PROGRAM = Path(sys.executable).parent / "cortext"
COLOURS = {
    "1": "#e6edf3",
    "2": "#8b949e",
    "31": "#ff7b72",
    "32": "#7ee787",
    "33": "#d29922",
    "34": "#79c0ff",
    "35": "#d2a8ff",
    "36": "#56d4dd",
}
WIDTH, LINE, LEFT, TOP = 118, 19, 18, 52
COMMANDS = (
    ("cortext list --here --limit 5", 6),
    ("cortext search tablets thrown out at sunrise --limit 1", 5),
    ("cortext show flaky", 10),
    ("cortext resume flaky --ai gemini --dry-run", 9),
)


def main() -> None:
    """Run the commands in a fresh demo workspace and draw the first lines of their output."""
    with tempfile.TemporaryDirectory() as folder:
        environ = {
            "PATH": f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": folder,
            "FORCE_COLOR": "1",
            "COLUMNS": str(WIDTH),
            "LANG": "C.UTF-8",
        }
        subprocess.run(
            [PROGRAM, "demo", "--quiet", "cortext-demo"], cwd=folder, env=environ, check=True, capture_output=True
        )
        rows: list[str] = []
        for command, count in COMMANDS:
            done = subprocess.run(
                command.split(), cwd=f"{folder}/cortext-demo", env=environ, check=True, capture_output=True
            )
            output = done.stdout.decode("utf-8").replace(folder, "~").rstrip().splitlines()
            rows += [f"\x1b[32m$\x1b[0m \x1b[1m{command}\x1b[0m", *output[:count], ""]
    (HERE / "at-work.svg").write_text(draw(rows[:-1]), encoding="utf-8")


def draw(rows: list[str]) -> str:
    """Return an SVG of a terminal window with these lines."""
    height = TOP + LINE * len(rows) + 14
    width = LEFT * 2 + int(WIDTH * 7.85)
    dots = "".join(
        f'<circle cx="{22 + 20 * n}" cy="20" r="6" fill="{c}"/>'
        for n, c in enumerate(("#ff5f57", "#febc2e", "#28c840"))
    )
    lines = "\n".join(
        f'<text x="{LEFT}" y="{TOP + LINE * index}" xml:space="preserve">{spans(row)}</text>'
        for index, row in enumerate(rows)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">\n'
        f'<rect width="{width}" height="{height}" rx="10" fill="#0d1117"/>{dots}\n'
        f'<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="13" fill="#c9d1d9">\n'
        f"{lines}\n</g></svg>\n"
    )


def spans(row: str) -> str:
    """Convert the ANSI colours of a line to SVG spans."""
    out, colour = [], ""
    for piece in re.split(r"(\x1b\[[0-9;]*m)", truncate(row)):
        if piece.startswith("\x1b["):
            codes = [code for code in piece[2:-1].split(";") if code in COLOURS]
            colour = COLOURS[codes[-1]] if codes else ""
        elif piece:
            out.append(f'<tspan fill="{colour}">{escape(piece)}</tspan>' if colour else escape(piece))
    return "".join(out)


def truncate(row: str) -> str:
    """Truncate a line to the width of the window; colour codes take no space."""
    seen, kept = 0, []
    for piece in re.split(r"(\x1b\[[0-9;]*m)", row):
        if piece.startswith("\x1b["):
            kept.append(piece)
        elif seen < WIDTH:
            kept.append(piece if seen + len(piece) <= WIDTH else piece[: WIDTH - seen - 1] + "…")
            seen += len(piece)
    return "".join(kept)


if __name__ == "__main__":
    main()
