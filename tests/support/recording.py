"""Stubs of the AI tools that record how they were started: their arguments and environment."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

VERSIONS = {"claude": "2.1.325 (Claude Code)", "gemini": "0.61.0", "opencode": "1.18.18", "codex": "codex-cli 0.166.0"}
_SCRIPT = """#!{python}
import json, os, subprocess, sys
words = [word for word in sys.argv[1:] if word != "--pure"]
if words == ["--version"]:
    print({version!r})
elif {name!r} == "opencode" and words[0] in ("import", "session"):
    sys.exit(subprocess.call([{python!r}, {stand_in!r}, *sys.argv[1:]]))
else:
    with open("/proc/self/cmdline", "rb") as file:
        argv = file.read().decode("utf-8", "replace").split("\\0")[:-1]
    with open({record!r}, "w", encoding="utf-8") as file:
        json.dump({{"argv": argv, "env": dict(os.environ)}}, file)
"""


class Started(NamedTuple):
    """Arguments and environment of a program's start."""

    argv: list[str]
    env: dict[str, str]


class Recording:
    """The four stubs, in a folder for PATH."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "recording"
        self.bin.mkdir()
        stand_in = Path(__file__).resolve().parent.parent / "tools" / "opencode" / "stand_in.py"
        for name, version in VERSIONS.items():
            script = self.bin / name
            record = str(self._record(name))
            text = _SCRIPT.format(
                python=sys.executable, version=version, name=name, stand_in=str(stand_in), record=record
            )
            script.write_text(text, encoding="utf-8")
            script.chmod(0o755)

    def _record(self, name: str) -> Path:
        return self.bin / f"{name}.json"

    def started(self, name: str) -> Started:
        """Return how this program was started last, and delete the record."""
        record = self._record(name)
        fields: dict[str, Any] = json.loads(record.read_text(encoding="utf-8"))
        record.unlink()
        return Started(fields["argv"], fields["env"])
