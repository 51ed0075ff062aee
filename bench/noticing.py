"""The cost of noticing that another program changed a session: checking the files of every session.

python -m bench.noticing [--few 400] [--many 1000] [--rounds 15]
"""

from __future__ import annotations

import os
import time
from functools import partial

from bench.common import arguments, print_table, spread, work_folder
from bench.list import fill
from cortext.index.refresh import StoreSource
from cortext.index.sessions import SessionIndex
from cortext.store.files.workspace import WorkspaceStore

LINE = '{"role": "user", "content": "from elsewhere", "timestamp": "2020-01-01T00:00:00Z"}\n'


def main() -> None:
    options = arguments(__doc__ or "", few=400, many=1_000, rounds=15)
    rows: list[tuple[str, ...]] = []
    with work_folder() as base:
        for count in (options.few, options.many):
            folder = os.path.join(base, f"folder-{count}")
            fill(folder, count)
            store = WorkspaceStore(folder)
            source = StoreSource(folder, "workspace", store.control, partial(WorkspaceStore, folder))
            index = SessionIndex(os.path.join(base, f"cache-{count}"))
            index.refresh([source])
            seconds = []
            for _ in range(options.rounds):
                start = time.perf_counter()
                index.refresh([source])
                seconds.append(time.perf_counter() - start)
            oldest = index.rows([folder])[-1]
            with open(os.path.join(oldest.path, ".session", "messages.jsonl"), "a", encoding="utf-8") as log:
                log.write(LINE)
            index.refresh([source])
            noticed = index.named([(folder, oldest.id)])[folder, oldest.id].message_count > oldest.message_count
            index.close()
            each = spread([second / count * 1e6 for second in seconds]).show("{:.1f}")
            whole = spread([second * 1000 for second in seconds]).show("{:.1f}")
            rows.append((f"{count:,}", whole, each, "noticed" if noticed else "NOT NOTICED"))
    print(f"\nOne check with nothing changed, {options.rounds} rounds: median (middle half; all rounds).\n")
    print_table(("sessions", "ms", "µs per session", "a line appended to the oldest"), rows)


if __name__ == "__main__":
    main()
