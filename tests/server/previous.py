"""An earlier build, from this repository's history, as a process that takes one command per line.

`previous_release` builds its wheel and returns the folder where it is unpacked. As a script (run with that package):
arguments URL and space; a line `append ID TEXT`, `create ID`, `list`, `find WORD`, `due` or `share ID NAME` is answered
with one line.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from cortext.server.store import PostgresStore

COMMIT = "d22c8d2"  # the release before: the last one with tables of version 5
VERSION_7 = "7a487de1"  # a build of this release with tables of version 7, before their shares had the owner in the key
_REPOSITORY = Path(__file__).resolve().parents[2]


def previous_release(folder: Path, commit: str = COMMIT) -> Path | None:
    """Unpack the wheel of the release before, or of another commit; None if this copy has no history."""
    done = subprocess.run(["git", "-C", str(_REPOSITORY), "archive", commit], capture_output=True, check=False)
    if done.returncode:
        return None
    sources, package = folder / "sources", folder / "package"
    sources.mkdir()
    subprocess.run(["tar", "-x", "-C", str(sources)], input=done.stdout, check=True)
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(sources)]
    subprocess.run(build, check=True, capture_output=True, timeout=300)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(package)
    return package


class Previous:
    """A running process of an earlier build."""

    def __init__(self, package: Path, url: str, space: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, url, space],
            env={**os.environ, "PYTHONPATH": str(package)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.communicate(timeout=10)

    def __call__(self, *words: str) -> str:
        """Send a command; return the answer."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(" ".join(words) + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().rstrip("\n")


def main(url: str, space: str) -> None:
    from importlib import import_module

    from cortext.errors import CortextError
    from cortext.model.message import Message
    from cortext.model.session import Session

    # Where these builds had it. Only there: with today's package this fails.
    assert max(import_module("cortext.store.postgres.schema").migrations()) < 8, "this is not an earlier build"
    store: PostgresStore = import_module("cortext.store.postgres.store").PostgresStore(url, space)
    for line in sys.stdin:
        command, *rest = line.split()
        try:
            if command == "create":
                answer = store.create(Session(id=rest[0], title=f"old {rest[0]}")).id
            elif command == "append":
                answer = str(store.append(rest[0], Message(role="user", content=" ".join(rest[1:])))[0].seq)
            elif command == "find":
                answer = " ".join(hit.message.content for hit in store.find(rest[0]))
            elif command == "share":
                answer = store.shares().share(rest[0], rest[1]).grantee
            elif command == "due":
                answer = " ".join(sorted(row[0] for row in store.chores().due("embed")))
            else:
                answer = " ".join(sorted(session.id for session in store.listed()))
        except CortextError as error:
            answer = f"error: {error.message}"
        print(answer, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
