"""The short commands and a hook on a small store, as cold processes, against their time budgets.

python -m bench.startup [--rounds 20]

A short command may take 120 ms beyond a bare `python -c pass`, a hook 100 ms in all. Exits with 1 if a median exceeds
its budget.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable

from bench.common import arguments, in_turns, print_table, spread, texts, work_folder
from bench.faces import BARE, cold, installed
from bench.hook import Transcript, payload, prepare
from bench.list import fill

CONVERSATIONS = 20
MESSAGES = 40
COMMAND_BUDGET = 120  # ms beyond the bare start
HOOK_BUDGET = 100  # ms in all
HOOK = "hook claude (UserPromptSubmit)"


def main() -> None:
    options = arguments(__doc__ or "", rounds=20)
    python, script = installed()
    with work_folder() as base:
        folder, home = os.path.join(base, "folder"), os.path.join(base, "home")
        fill(folder, CONVERSATIONS)
        key = str(uuid.uuid4())
        talk = Transcript(os.path.join(home, ".claude", "projects", "p", f"{key}.jsonl"), key, folder)
        talk.say(texts(MESSAGES))
        prepare(folder, home, talk, number=CONVERSATIONS + 1)
        event = {"session_id": key, "transcript_path": talk.path, "cwd": folder}
        prompt = payload({**event, "prompt": "And what about the retry budget?"}, "UserPromptSubmit")
        contenders: dict[str, Callable[[int], float]] = {
            BARE: cold([python, "-c", "pass"], folder, home),
            "cortext --help": cold([script, "--help"], folder, home),
            "cortext doctor": cold([script, "doctor"], folder, home),
            "cortext list": cold([script, "list"], folder, home),
            "cortext resume ID --print": cold([script, "resume", f"{CONVERSATIONS + 1:05}", "--print"], folder, home),
            HOOK: cold([script, "hook", "claude"], folder, home, prompt),
        }
        for contend in contenders.values():
            contend(0)  # write the compiled files and build the index
        seconds = in_turns(contenders, options.rounds)
    rows, missed = [], False
    for name, needed in seconds.items():
        whole = spread([value * 1000 for value in needed])
        beyond = spread([(ours - bare) * 1000 for ours, bare in zip(needed, seconds[BARE], strict=True)])
        if name == BARE:
            rows.append((name, whole.show("{:.0f}"), "", ""))
            continue
        over = whole.median > HOOK_BUDGET if name == HOOK else beyond.median > COMMAND_BUDGET
        budget = f"≤ {HOOK_BUDGET} in all" if name == HOOK else f"≤ {COMMAND_BUDGET} beyond"
        rows.append((name, whole.show("{:.0f}"), beyond.show("{:.0f}"), budget + (": MISSED" if over else "")))
        missed |= over
    print(f"\nWhole processes, {CONVERSATIONS + 1} conversations, {options.rounds} interleaved rounds:")
    print("median (middle half; all rounds), ms.\n")
    print_table(("command", "whole", "beyond the bare start", "budget"), rows)
    raise SystemExit(1 if missed else 0)


if __name__ == "__main__":
    main()
