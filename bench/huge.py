"""A transcript of 2 GB: peak memory and time of the commands, beside a transcript of a hundredth of its size.

python -m bench.huge [--megabytes 2000]

The transcript is Claude Code's: turns with a tool call whose result has about a megabyte, as logs and builds have. The
whole conversation never fits a model, so the resume writes the newest messages that do.
"""

from __future__ import annotations

import os
import sys
import time

from tests.support.much import HUGE_ID, taken, write_huge_transcript

from bench.common import arguments, child_environment, print_table, work_folder
from cortext.tools import registry

CORTEXT = os.path.join(os.path.dirname(sys.executable), "cortext")
COMMANDS = (
    ("import",),
    ("import",),  # nothing is new
    ("list",),
    ("search", "heron", "number", "12"),
    ("search", "--exact", "heron number 12"),
    ("show", HUGE_ID, "--tail", "5"),
    ("export", HUGE_ID),
    *(("resume", HUGE_ID, "--ai", name, "--dry-run") for name in registry.BUILT_IN),
    ("resume", HUGE_ID, "--print"),
    ("doctor",),
)


def measured(megabytes: int) -> list[str]:
    """Return peak memory and time of every command with a transcript of this size."""
    found = []
    with work_folder() as folder:
        project = os.path.join(folder, "work")
        os.makedirs(project)
        write_huge_transcript(folder, project, megabytes)
        environ = child_environment(HOME=folder)
        for command in COMMANDS:
            started = time.monotonic()
            done = taken((CORTEXT, *command), cwd=project, env=environ)
            seconds = time.monotonic() - started
            found.append(f"{done.peak:.0f} MB, {seconds:.1f} s" + (f" (exit {done.code})" if done.code else ""))
            print(f"{megabytes:,} MB: {' '.join(command)}: {found[-1]}", file=sys.stderr, flush=True)
    return found


def main() -> None:
    options = arguments(__doc__ or "", megabytes=2_000)
    small = max(1, options.megabytes // 100)
    columns = {f"{small} MB": measured(small), f"{options.megabytes:,} MB": measured(options.megabytes)}
    rows = zip((" ".join(words) for words in COMMANDS), *columns.values(), strict=True)
    print("\nPeak memory and time\n")
    print_table(("cortext …", *columns), list(rows))


if __name__ == "__main__":
    main()
