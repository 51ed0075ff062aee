"""Loading a session of 10,000 messages, and its last 50, compared with the session stores of three frameworks.

python -m bench.load [--messages 10000] [--rounds 15]
"""

from __future__ import annotations

import os
import sys
from functools import partial

from bench.common import Worker, arguments, in_turns, peers, print_table, ratios, spread, texts, work_folder

TAIL = 50
OURS = ("workspace", "spawn", "chat")
THEIRS = {
    "openai": "openai-agents SQLiteSession",
    "langgraph": "langgraph SqliteSaver",
    "adk": "google-adk SqliteSessionService",
}


def main() -> None:
    options = arguments(__doc__ or "", messages=10_000, rounds=15)
    with work_folder() as folder:
        workers: dict[str, Worker] = {}
        for name in (*OURS, *THEIRS):
            python = sys.executable if name in OURS else peers()
            script = "own_load.py" if name in OURS else "peer_load.py"
            workers[name] = Worker(python, script, name, os.path.join(folder, name))
        said = texts(options.messages)
        size = sum(len(text.encode()) for text in said)
        print(f"{options.messages:,} messages, {size / 1e6:.1f} MB of text. How each store was filled:")
        for name, worker in workers.items():
            print(f"- {_label(name)}: {worker.ask(build=said)}", flush=True)
        rows = []
        for name, worker in workers.items():
            whole, last = worker.ask(load=0), worker.ask(load=TAIL)  # warm up, and check what it finds
            assert (whole["count"], last["count"]) == (options.messages, TAIL), name
            assert whole["last"] == last["last"] == said[-1], name
        for count in (0, TAIL):
            seconds = in_turns(
                {name: partial(_load, worker, count) for name, worker in workers.items()}, options.rounds
            )
            best = min(OURS, key=lambda name: spread(seconds[name]).median)
            for name, needed in seconds.items():
                what = f"the last {count}" if count else "whole"
                ratio = ratios(seconds[best], needed).show("{:.1f}") if name in THEIRS else ""
                rows.append((f"{_label(name)}, {what}", spread([x * 1000 for x in needed]).show("{:.2f}"), ratio))
        for worker in workers.values():
            worker.close()
    print(
        f"\nThe load alone, without imports, {options.rounds} interleaved rounds: median (middle half; all rounds).\n"
    )
    print_table(("session store", "ms", "times our fastest"), rows)


def _load(worker: Worker, count: int, _: int) -> float:
    return float(worker.ask(load=count)["seconds"])


def _label(name: str) -> str:
    return THEIRS.get(name, f"cortext, {name} layout")


if __name__ == "__main__":
    main()
