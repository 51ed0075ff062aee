"""The packet and the dry runs of a long session: cold processes, minus the bare start of the same Python.

python -m bench.packet_time [--messages 10000] [--rounds 15]
"""

from __future__ import annotations

import os

from bench.common import arguments, in_turns, print_table, work_folder
from bench.faces import BARE, cold, installed, rows_beyond, session, talk
from cortext.store.files.workspace import WorkspaceStore
from cortext.tools.registry import BUILT_IN


def main() -> None:
    options = arguments(__doc__ or "", messages=10_000, rounds=15)
    python, script = installed()
    with work_folder() as base:
        folder, home = os.path.join(base, "folder"), os.path.join(base, "home")
        os.makedirs(os.path.join(folder, ".workspace"))
        os.mkdir(home)
        store = WorkspaceStore(folder)
        made = store.create(session(1))
        store.append(made.id, *talk(options.messages))
        size = os.path.getsize(os.path.join(made.path, ".session", "messages.jsonl")) / 1e6
        contenders = {
            BARE: cold([python, "-c", "pass"], folder, home),
            "resume ID --print": cold([script, "resume", made.id, "--print"], folder, home),
        }
        for tool in BUILT_IN:
            command = [script, "resume", made.id, "--dry-run", "--ai", tool]
            contenders[f"resume ID --dry-run --ai {tool}"] = cold(command, folder, home)
        for contend in contenders.values():
            contend(0)  # write the compiled files and build the index
        seconds = in_turns(contenders, options.rounds)
    print(f"\nA session of {options.messages} messages ({size:.1f} MB); {options.rounds} interleaved rounds:")
    print("median (middle half; all rounds), ms.\n")
    print_table(("command", "whole", "beyond the bare start", "target"), rows_beyond(seconds, "< 100"))


if __name__ == "__main__":
    main()
