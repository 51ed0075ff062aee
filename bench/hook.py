"""What `cortext hook claude` adds to a turn: the whole time of a cold process.

python -m bench.hook [--messages 2000] [--rounds 15]

The session belongs to a workspace, so messages are masked when they are captured; each Stop finds one new turn.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterable

from bench.common import arguments, in_turns, print_table, role_of, texts, work_folder
from bench.faces import BARE, at_home, cold, installed, rows_beyond, session
from cortext.model.session import Origin
from cortext.tools.claude_code.adapter import ClaudeCode
from cortext.wiring.stores import Stores


class Transcript:
    """A Claude Code transcript that grows turn by turn."""

    def __init__(self, path: str, key: str, project: str) -> None:
        self.path, self.key, self.project, self._last, self._count = path, key, project, "", 0
        os.makedirs(os.path.dirname(path), exist_ok=True)

    def say(self, said: list[str]) -> None:
        """Append these messages, user and assistant alternately."""
        lines = []
        for text in said:
            role, record_id, minute = role_of(self._count), str(uuid.uuid4()), self._count
            message = {"role": role, "content": text if role == "user" else [{"type": "text", "text": text}]}
            record = {
                "parentUuid": self._last or None,
                "isSidechain": False,
                "cwd": self.project,
                "sessionId": self.key,
                "type": role,
                "message": message,
                "uuid": record_id,
                "timestamp": f"2026-01-{1 + minute // 1440 % 28:02}T{minute // 60 % 24:02}:{minute % 60:02}:00.000Z",
            }
            lines.append(json.dumps(record, separators=(",", ":"), ensure_ascii=False) + "\n")
            self._last, self._count = record_id, self._count + 1
        with open(self.path, "a", encoding="utf-8") as file:
            file.writelines(lines)


def main() -> None:
    options = arguments(__doc__ or "", messages=2_000, rounds=15)
    python, script = installed()
    with work_folder() as base:
        folder, home = os.path.join(base, "folder"), os.path.join(base, "home")
        os.makedirs(os.path.join(folder, ".workspace"))
        key = str(uuid.uuid4())
        talk = Transcript(os.path.join(home, ".claude", "projects", "p", f"{key}.jsonl"), key, folder)
        talk.say(texts(options.messages))
        read = prepare(folder, home, talk)
        event = {"session_id": key, "transcript_path": talk.path, "cwd": folder}
        stop = cold([script, "hook", "claude"], folder, home, payload(event, "Stop"))
        more = iter(texts(4 * options.rounds + 8, seed=7))

        def stopped(number: int) -> float:
            talk.say([next(more), next(more)])
            return stop(number)

        prompt = payload({**event, "prompt": "And what about the retry budget?"}, "UserPromptSubmit")
        contenders: dict[str, Callable[[int], float]] = {
            BARE: cold([python, "-c", "pass"], folder, home),
            "hook claude: Stop, one new turn": stopped,
            "hook claude: UserPromptSubmit": cold([script, "hook", "claude"], folder, home, prompt),
        }
        for contend in contenders.values():
            contend(0)
        seconds = in_turns(contenders, options.rounds)
        kept = sum(1 for _ in read())
        log = os.path.join(home, ".local", "state", "cortext", "hook.log")
        failed = os.path.exists(log)
    expected = options.messages + 2 * (options.rounds + 1)
    print(f"\nA session of {options.messages} messages in a workspace; {options.rounds} interleaved rounds:")
    print("median (middle half; all rounds), ms. The turn waits for the whole process.")
    print(
        f"Afterwards the session holds {kept} of {expected} messages; errors logged: {'YES' if failed else 'none'}.\n"
    )
    print_table(("event", "whole", "beyond the bare start", "target"), rows_beyond(seconds, "< 100"))


def prepare(folder: str, home: str, talk: Transcript, number: int = 1) -> Callable[[], Iterable[object]]:
    """Create the workspace conversation that the transcript belongs to and capture it once; return its reader."""
    with at_home(home):
        stores = Stores(folder)
        named_store = stores.workspace_store()
        made = session(number)
        made.status, made.origin = "active", Origin(tool="claude", session_id=talk.key)
        made = named_store.store.create(made)
        capture = stores.capture()
        capture.attach(named_store, made.id, "claude", talk.key)
        tool = ClaudeCode()
        transcript = tool.transcript_at(talk.path)
        assert transcript is not None
        capture.capture(tool, transcript)
    return lambda: named_store.store.read(made.id)


def payload(event: dict[str, str], name: str) -> bytes:
    """Return an event as the tool sends it."""
    return json.dumps({**event, "hook_event_name": name}).encode()


if __name__ == "__main__":
    main()
