"""Search compared with two peers on the same data: fast-resume (Claude Code transcripts) and llm (its log database).

python -m bench.search_peers [--sessions 500] [--messages 40] [--rounds 7]

Reported: the time until everything is searchable for the first time, and a query in a cold process.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
import uuid

from bench.common import REPO, arguments, environment, in_turns, print_table, spread, work_folder
from bench.faces import BARE, cold, home_environment
from bench.search_corpus import words
from cortext.index.search.arrays import np

FILL_LLM = """
import json, sys
import sqlite_utils
from llm.migrations import migrate
database = sqlite_utils.Database(sys.argv[1])
migrate(database)
for number, line in enumerate(open(sys.argv[2], encoding="utf-8")):
    said = json.loads(line)
    name = f"c{number:05}"
    database["conversations"].insert({"id": name, "name": said[0][:40], "model": "m"})
    database["responses"].insert_all(
        {"id": f"{name}-{place:04}", "model": "m", "prompt": said[place], "response": said[place + 1],
         "conversation_id": name, "datetime_utc": "2026-01-01T00:00:00"}
        for place in range(0, len(said) - 1, 2)
    )
"""


def main() -> None:
    options = arguments(__doc__ or "", sessions=500, messages=40, rounds=7)
    python = environment("bench-search", "--force-reinstall", "--no-deps", REPO, renew=True)
    environment("bench-search", "msgspec", "numpy", "tantivy", renew=True)
    ours = os.path.join(os.path.dirname(python), "cortext")
    peers = os.path.dirname(environment("bench-search-peers", "fast-resume", "llm"))
    talk = said(options.sessions, options.messages)
    with work_folder() as base:
        home = os.path.join(base, "home")
        transcripts(os.path.join(home, ".claude", "projects", "-work"), talk)
        lines, database = os.path.join(base, "talk.jsonl"), os.path.join(base, "logs.db")
        with open(lines, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(session) + "\n" for session in talk)
        asked = "history"
        commands = {
            "cortext search": [ours, "search", asked, "--limit", "10"],
            "cortext search --exact": [ours, "search", asked, "--limit", "10", "--exact"],
            "fast-resume --no-refresh": [os.path.join(peers, "fr"), "--list", "--limit", "10", "--no-refresh", asked],
            "fast-resume": [os.path.join(peers, "fr"), "--list", "--limit", "10", asked],
            "llm logs -q": [os.path.join(peers, "llm"), "logs", "list", "-n", "10", "-q", asked, "-d", database],
        }
        first = [
            ("cortext import", timed([ours, "import"], home)),
            ("cortext search, the first time (keywords and vectors)", timed(commands["cortext search"], home)),
            ("fast-resume --rebuild", timed([os.path.join(peers, "fr"), "--rebuild", "--list", "--limit", "1"], home)),
            (
                "llm: insert into its database",
                timed([os.path.join(peers, "python"), "-c", FILL_LLM, database, lines], home),
            ),
        ]
        count = sum(map(len, talk))
        print(f"{len(talk):,} sessions, {count:,} messages; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n")
        print_table(("first", "s"), [(name, f"{seconds:.2f}") for name, seconds in first])
        contenders = {BARE: cold([python, "-c", "pass"], home, home)}
        contenders |= {name: cold(command, home, home) for name, command in commands.items()}
        for contend in contenders.values():
            contend(0)
        seconds = in_turns(contenders, options.rounds)
        rows = [(name, spread([value * 1000 for value in needed]).show("{:.0f}")) for name, needed in seconds.items()]
        print_table(("a query, cold process", "ms: median (middle half; all)"), rows)
        shutil.rmtree(home)


def said(sessions: int, messages: int) -> list[list[str]]:
    """Return the texts of the sessions."""
    every, cumulative = words()
    chance = np.random.default_rng(5)
    return [
        [
            " ".join(every[np.searchsorted(cumulative, chance.random(int(size)))])
            for size in chance.integers(5, 80, messages)
        ]
        for _ in range(sessions)
    ]


def transcripts(folder: str, talk: list[list[str]]) -> None:
    """Write the same texts as Claude Code transcripts."""
    os.makedirs(folder)
    for number, session in enumerate(talk):
        key = str(uuid.uuid5(uuid.NAMESPACE_OID, str(number)))
        parent = None
        with open(os.path.join(folder, f"{key}.jsonl"), "w", encoding="utf-8") as file:
            for index, text in enumerate(session):
                role = ("user", "assistant")[index % 2]
                record_id = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{number} {index}"))
                content: object = text if role == "user" else [{"type": "text", "text": text}]
                record = {
                    "parentUuid": parent, "isSidechain": False, "userType": "external", "cwd": "/work",
                    "sessionId": key, "version": "2.0.0", "type": role,
                    "message": {"role": role, "content": content}, "uuid": record_id,
                    "timestamp": f"2026-01-{1 + number % 28:02}T{index // 60 % 24:02}:{index % 60:02}:00.000Z",
                }  # fmt: skip
                file.write(json.dumps(record) + "\n")
                parent = record_id


def timed(command: list[str], home: str) -> float:
    """Return the seconds of a whole process."""
    begin = time.perf_counter()
    done = subprocess.run(command, cwd=home, env=home_environment(home), capture_output=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{command}: {done.stderr.decode('utf-8', 'replace')}")
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
