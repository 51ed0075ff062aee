"""Peak memory of making vectors and of merging their files, each in a separate process.

python -m bench.vectors_memory [--vectors 200000]
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bench.common import arguments, print_table
from cortext.index.search import clusters
from cortext.index.search.meaning import Meaning, _Making
from cortext.index.search.state import State
from cortext.index.search.vectors import owner

DIMENSION = 256
SESSION = 100  # messages per session
MADE, MERGED = 1, 2  # the task of the child process


class RandomModel:
    """Random vectors, as long as those of the built-in model."""

    name = "random"
    dimension = DIMENSION
    quick = True
    near, far, sure = 0.1, 0.25, 0.45

    def __init__(self) -> None:
        self._chance = np.random.default_rng(0)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a vector per text."""
        made = self._chance.standard_normal((len(texts), DIMENSION), dtype=np.float32)
        return np.asarray(made / np.linalg.norm(made, axis=1, keepdims=True), dtype=np.float32)


def make(folder: str, count: int, *, merge: bool) -> None:
    """Make `count` vectors of invented sessions, as an index update does."""
    state = State(folder)
    meaning = Meaning(folder, state, RandomModel.name)
    os.makedirs(meaning.folder)
    making = _Making(meaning, RandomModel())
    for number in range(count // SESSION):
        state.begin()
        key = state.new_key("store", f"session-{number}")
        for seq in range(SESSION):
            making.add(owner(key, seq), "")
        state.commit()
        making.reached(key, SESSION)
    making.write()
    if merge:
        meaning.merge()
    state.close()


def peak() -> float:
    """Return the peak memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "linux" else 1024**2)


def measured(count: int, what: int) -> float:
    """Return the memory a new process uses beyond what it has after its imports, in MB."""
    command = [sys.executable, "-m", "bench.vectors_memory", "--vectors", str(count), "--only", str(what)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    options = arguments(__doc__ or "", vectors=200_000, only=0)
    if options.only:
        RandomModel().embed([""])
        before = peak()
        with tempfile.TemporaryDirectory() as folder:
            make(folder, options.vectors, merge=options.only == MERGED)
        print(peak() - before)
        return
    size = options.vectors * DIMENSION / 1e6
    rows = [
        ("made, in files of 65,536", f"{measured(options.vectors, MADE):.0f} MB"),
        ("and merged into one, in clusters", f"{measured(options.vectors, MERGED):.0f} MB"),
    ]
    print(f"\n{options.vectors:,} vectors, {size:.0f} MB on disk; clusters from {clusters.WORTH:,} on.\n")
    print_table(("what", "peak beyond the start"), rows)


if __name__ == "__main__":
    main()
