"""Importing the same conversations from each tool that they can be written for, compared with Claude Code.

python -m bench.import_tools [--sessions 40] [--messages 200] [--rounds 5]

Each tool gets the same conversations, of real lengths, from cortext's own writers, in a home of its own. What is timed
is the whole import: finding, reading, copying and storing. Files differ in size for the same words, so both are
reported: the CPU time for the same words, and for the same number of bytes.
"""

from __future__ import annotations

import os
import sys
import uuid
from functools import partial

from msgspec.structs import replace

from bench.common import arguments, in_turns, print_table, ratios, spread, work_folder
from bench.faces import at_home, talk
from bench.import_ import run_import, start_over
from cortext.errors import NotFound
from cortext.model.message import Message
from cortext.tools import registry
from cortext.tools.base import NativeWriter

# What an import writes. Our histories of Aider are in the data folder, too, and are what is imported.
OURS = (".local/share/cortext/home", ".local/state/cortext", ".cache/cortext")
MOST = 1.5  # times Claude Code's time for the same number of bytes


def corpus(name: str, home: str, conversations: list[list[Message]]) -> float:
    """Write the conversations into the store of a tool; return how many megabytes that takes."""
    project = os.path.join(home, "work")
    os.makedirs(project)
    with at_home(home):
        tool = registry.load(name)
        if not isinstance(tool, NativeWriter):
            raise SystemExit(f"{name} cannot be written")
        for number, messages in enumerate(conversations):
            tool.write(messages, project=project, title=f"Conversation {number}")
        return sum(transcript.size for transcript in tool.transcripts()) / 1e6


def with_new_ids(messages: list[Message]) -> list[Message]:
    return [replace(message, id=str(uuid.uuid4())) for message in messages]


def main() -> None:
    options = arguments(__doc__ or "", sessions=40, messages=200, rounds=5)
    said = talk(options.messages)
    conversations = [with_new_ids(said) for _ in range(options.sessions)]
    with work_folder() as base:
        homes = {name: os.path.join(base, name, "home") for name in registry.BUILT_IN}
        sizes = {}
        for name, home in list(homes.items()):
            try:
                sizes[name] = corpus(name, home, conversations)
            except NotFound as error:  # OpenCode's store is written by the program itself
                print(f"left out: {error.message}", file=sys.stderr)
                del homes[name]

        def importing(name: str, home: str, _: int) -> float:
            start_over(home, OURS)
            elapsed, report = run_import(home, name)
            if report.failed or report.created != options.sessions:
                raise SystemExit(f"{name}: {report.created} of {options.sessions} sessions: {report.failed[:3]}")
            return elapsed.processor

        used = in_turns({name: partial(importing, name, home) for name, home in homes.items()}, options.rounds)
    rows = []
    for name, seconds in used.items():
        by_bytes = [value / sizes[name] for value in seconds]
        claude = [value / sizes["claude"] for value in used["claude"]]
        times = ratios(claude, by_bytes)
        missed = ": **missed**" if times.median > MOST else ""
        rows.append(
            (
                registry.title_of(name),
                f"{sizes[name]:.1f}",
                spread(seconds).show(),
                ratios(used["claude"], seconds).show(),
                times.show() + missed,
            )
        )
    print(f"\n{options.sessions} conversations of {options.messages} messages; median (middle half; all rounds)\n")
    print_table(("tool", "MB", "CPU s", "times Claude Code, same words", f"by bytes (target ≤ {MOST})"), rows)


if __name__ == "__main__":
    main()
