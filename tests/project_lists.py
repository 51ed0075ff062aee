"""The lists of pyproject.toml that say what the code says: entry points, and the adapters in the contracts of imports.

    python -m tests.project_lists            write them, after a change in `tools/registry.py` or `extensions.py`
python -m tests.project_lists --check    only say whether they are up to date; a test does
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path

from cortext import extensions
from cortext.tools import registry

FILE = Path(__file__).parents[1] / "pyproject.toml"
GROUPS = (extensions.STORES, extensions.MODELS, extensions.COMMANDS, extensions.EXPORTS, registry.TOOLS)


def updated(project: str) -> str:
    """Return the text of pyproject.toml with these lists as the code has them."""
    for group in GROUPS:
        table = f'[project.entry-points."{group.name}"]\n'
        lines = [f'{name} = "{place}"\n' for name, place in group.built_in.items()]
        begin = project.index(table) + len(table)
        project = project[:begin] + "".join(lines) + project[project.index("\n[", begin) :]
    packages = sorted({place.rpartition(".")[0] for place in registry.TOOLS.built_in.values()})
    return re.sub(r'(?:  "cortext\.tools\.\w+",\n)+', "".join(_quoted(packages)), project)


def _quoted(packages: Iterable[str]) -> Iterable[str]:
    return (f'  "{package}",\n' for package in packages)


def main() -> int:
    """Write the lists; with --check, return 1 if they would change."""
    before = FILE.read_text("utf-8")
    after = updated(before)
    if "--check" in sys.argv[1:]:
        print("up to date" if after == before else "pyproject.toml is out of date: python -m tests.project_lists")
        return int(after != before)
    FILE.write_text(after, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
