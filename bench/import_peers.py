"""Importing the same conversations with cortext, fast-resume and agentsview: every tool that one of the two reads.

python -m bench.import_peers [--sessions 30] [--messages 200] [--rounds 5]

The corpus is that of `bench.import_tools`. Each program runs as a cold process in a home with one tool's conversations,
in turns; what it imported before is moved aside. A program that lists none of them does not read that tool.
agentsview and cortext store the messages; fast-resume builds a search index of part of the text, cortext's is built at
the first search.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from functools import partial

from bench.common import arguments, environment, in_turns, print_table, ratios, spread, work_folder
from bench.faces import home_environment, installed, talk
from bench.import_ import start_over
from bench.import_tools import corpus, with_new_ids
from cortext.errors import NotFound
from cortext.tools import registry

WRITTEN = (".local/share/cortext/home", ".local/state", ".cache", ".agentsview", ".config")


def timed(command: list[str], home: str) -> tuple[float, str]:
    """Return the seconds of a cold process in this home, and its output."""
    environ = {**home_environment(home), "AGENTSVIEW_NO_DAEMON": "1"}  # else a server does the work and keeps running
    begin = time.perf_counter()
    done = subprocess.run(command, cwd=home, env=environ, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - begin
    if done.returncode:
        raise SystemExit(f"{command} exited with {done.returncode}: {done.stderr}")
    return seconds, done.stdout


def main() -> None:
    options = arguments(__doc__ or "", sessions=30, messages=200, rounds=5)
    _, cortext = installed()
    folder = os.path.dirname(environment("bench-importers", "fast-resume", "agentsview"))
    programs = {
        "cortext": [cortext, "import", "--from", "NAME"],
        "fast-resume": [os.path.join(folder, "fr"), "--rebuild", "--list"],
        "agentsview": [os.path.join(folder, "agentsview"), "sync"],
    }
    conversations = [with_new_ids(talk(options.messages)) for _ in range(options.sessions)]
    found = {
        "cortext": re.compile(rf"\b{options.sessions}\b"),
        "fast-resume": re.compile(rf"of {options.sessions} sessions"),
        "agentsview": re.compile(rf"Database: {options.sessions} sessions"),
    }

    def importing(program: str, name: str, home: str, reads: dict[str, bool], _: int) -> float:
        start_over(home, WRITTEN)
        seconds, printed = timed([name if word == "NAME" else word for word in programs[program]], home)
        reads[program] = found[program].search(printed) is not None
        return seconds

    rows = []
    with work_folder() as base:
        for name in registry.BUILT_IN:
            home = os.path.join(base, name, "home")
            try:
                corpus(name, home, conversations)
            except NotFound:  # OpenCode's store is written by the program itself
                continue
            reads: dict[str, bool] = {}

            seconds = in_turns(
                {program: partial(importing, program, name, home, reads) for program in programs}, options.rounds
            )
            shown = [
                f"{spread(seconds[peer]).median:.2f}; {ratios(seconds['cortext'], seconds[peer]).show()}"
                if reads[peer]
                else "does not read it"
                for peer in ("fast-resume", "agentsview")
            ]
            if not reads["cortext"]:
                raise SystemExit(f"{name}: the import was incomplete")
            rows.append((registry.title_of(name), f"{spread(seconds['cortext']).median:.2f}", *shown))
    print(
        f"\n{options.sessions} conversations of {options.messages} messages, {options.rounds} rounds: seconds; ", end=""
    )
    print("times as long as cortext (middle half; all rounds)\n")
    print_table(("tool", "cortext, s", "fast-resume", "agentsview"), rows)


if __name__ == "__main__":
    main()
