"""Start-up of `cortext --help` and of `cortext doctor` on an empty store, compared with `python -c pass`.

python -m bench.startup [--rounds 40]
"""

from __future__ import annotations

import os
import subprocess
import time
from functools import partial

from bench.common import REPO, arguments, child_environment, environment, in_turns, print_table, spread, work_folder

BARE = "python -c pass"
TARGET = 3


def start(command: list[str], folder: str, home: str, _: int) -> float:
    """Run a command in an empty folder with an empty home; return the seconds."""
    begin = time.perf_counter()
    result = subprocess.run(
        command,
        cwd=folder,
        env=child_environment(HOME=home, XDG_DATA_HOME="", XDG_CONFIG_HOME="", XDG_STATE_HOME="", XDG_CACHE_HOME=""),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    seconds = time.perf_counter() - begin
    if result.returncode:
        raise SystemExit(f"{command} exited with {result.returncode}: {result.stderr.decode('utf-8', 'replace')}")
    return seconds


def main() -> None:
    options = arguments(__doc__ or "", rounds=40)
    # Not editable, so that it starts as fast as for a user; reinstalled each time.
    python = environment("bench-cortext", "--force-reinstall", "--no-deps", REPO, renew=True)
    environment("bench-cortext", "msgspec", renew=True)
    script = os.path.join(os.path.dirname(python), "cortext")
    commands = {
        BARE: [python, "-c", "pass"],
        "cortext --help": [script, "--help"],
        "cortext doctor": [script, "doctor"],
    }
    with work_folder() as base:
        folder, home = os.path.join(base, "folder"), os.path.join(base, "home")
        os.mkdir(folder)
        os.mkdir(home)
        contenders = {name: partial(start, command, folder, home) for name, command in commands.items()}
        for contend in contenders.values():
            contend(0)  # write the compiled files
        seconds = in_turns(contenders, options.rounds)
    print(f"\nThe whole process, {options.rounds} interleaved rounds: median (middle half; all rounds).\n")
    print_table(
        ("command", "ms", "times the bare start", "target"),
        [
            (
                name,
                spread([value * 1000 for value in needed]).show("{:.1f}"),
                spread([ours / bare for ours, bare in zip(needed, seconds[BARE], strict=True)]).show(),
                "" if name == BARE else f"≤ {TARGET}",
            )
            for name, needed in seconds.items()
        ],
    )


if __name__ == "__main__":
    main()
