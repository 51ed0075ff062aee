"""Bot and worker killed at random moments under load; then every message and answer is counted.

`python -m tests.agents.alfred.storm --kills 200` is the long version (about 8 minutes); the test makes fewer kills.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.agents.alfred.kit import Bot, Parrot, alfred, environment, lines_of, messages_of, sessions_of
from tests.support.telegram_server import TelegramServer
from tests.support.waiting import strike_after, wait_until

CHATS = (4711, 4712, 4713, 4714, 4715)


class Storm:
    """One run."""

    def __init__(self, home: Path, seed: int) -> None:
        self.home, self.chance = home, random.Random(seed)
        self.questions: dict[int, list[str]] = {chat: [] for chat in CHATS}
        self.kills = self.worker_kills = self.in_answers = 0

    def run(self, kills: int) -> Counter[str]:
        """Kill this many times, let the bot finish, and return the counts; AssertionError if a message is wrong."""
        with TelegramServer() as telegram, Parrot() as model:
            model.slow = 0.08
            env = {**environment(self.home, model, telegram), "CORTEXT_SESSION_IDLE_MINUTES": "0"}
            bot = Bot(env, telegram, "--no-worker", allowed=",".join(map(str, CHATS)))
            worker: subprocess.Popen[bytes] | None = None
            worker_started = 0.0
            try:
                while self.kills < kills:
                    self._talk(telegram)
                    bot.start(wait=self.chance.random() < 0.8)
                    self._talk(telegram)
                    if worker is None or worker.poll() is not None:
                        worker = self._worker(env)
                        worker_started = time.monotonic()
                    if self.chance.random() < 0.5:
                        # A worker does its work in the second after its start.
                        strike_after(worker_started + self.chance.uniform(0.2, 1.2) - time.monotonic())
                        self.worker_kills += worker.poll() is None
                        worker.kill()
                    self._wait(telegram)
                    bot.kill()
                    self.kills += 1
                    self.in_answers += self._unfinished()
            finally:
                if bot.process is not None and bot.process.poll() is None:
                    bot.kill()
                if worker is not None:
                    worker.kill()
                    worker.wait()
            with bot:
                telegram.wait_for(lambda: not telegram.waiting and self._all_answered(telegram), 120)
            assert alfred(env, "worker", "--once").code == 0
            asked = len(model.summaries())
            assert alfred(env, "worker", "--once").code == 0
            assert len(model.summaries()) == asked, "a summary that covers everything was made again"
            return self._count(telegram, model)

    def _talk(self, telegram: TelegramServer) -> None:
        for _ in range(self.chance.randint(1, 5)):
            chat = self.chance.choice(CHATS)
            text = f"question {len(self.questions[chat])} of {chat}"
            self.questions[chat].append(text)
            telegram.say(chat, text)

    def _wait(self, telegram: TelegramServer) -> None:
        """Wait for a random number of calls of the bot, at most a few seconds, and a little longer."""
        calls = len(telegram.calls) + self.chance.randint(0, 24)
        deadline = time.monotonic() + 6
        wait_until(lambda: len(telegram.calls) >= calls or time.monotonic() > deadline)
        strike_after(self.chance.uniform(0, 0.03))

    def _unfinished(self) -> int:
        """Return how many answers the kill interrupted, according to the bot's journal."""
        unfinished: set[int] = set()
        journal = sessions_of(self.home).parent / "telegram" / "987654.jsonl"
        for line in journal.read_bytes().splitlines() if journal.exists() else ():
            try:
                record = json.loads(line)
            except ValueError:
                continue  # a line that was torn by the kill
            if record["type"] in ("note", "sent"):
                unfinished.add(record["update"])
            elif record["type"] == "done":
                unfinished.discard(record["update"])
        return len(unfinished)

    def _worker(self, env: dict[str, str]) -> subprocess.Popen[bytes]:
        with (self.home / "worker.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "cortext.agents.alfred.main", "worker", "--once"],
                env=env,
                stdout=log,
                stderr=log,
                cwd=self.home,
            )

    def _all_answered(self, telegram: TelegramServer) -> bool:
        return all(len(_answers(telegram, chat)) >= len(self.questions[chat]) for chat in CHATS)

    def _count(self, telegram: TelegramServer, model: Parrot) -> Counter[str]:
        found: Counter[str] = Counter(kills=self.kills, worker_kills=self.worker_kills)
        found["answers that a kill interrupted"] = self.in_answers
        for chat in CHATS:
            if not self.questions[chat]:
                continue
            messages = messages_of(self.home, f"tg_{chat}")
            users = [message["content"] for message in messages if message["role"] == "user"]
            assert users == self.questions[chat], f"chat {chat}: messages lost, duplicated or out of order"
            complete = [message for message in messages if not message.get("partial")]
            answers = [message["content"] for message in complete if message["role"] == "assistant"]
            assert answers == [f"Answer to {text}" for text in users], f"chat {chat}: answers in the log"
            assert _answers(telegram, chat) == answers, f"chat {chat}: what the user sees"
            assert len(telegram.said(chat)) == len(answers), f"chat {chat}: what else the user sees"
            lines = lines_of(sessions_of(self.home) / f"tg_{chat}" / "current.jsonl")
            vectors = Counter(line["message_id"] for line in lines if line.get("type") == "embedding")
            assert set(vectors) == {message["id"] for message in complete}, f"chat {chat}: vectors missing"
            found["messages"] += len(messages)
            found["partial"] += len(messages) - len(complete)
            found["duplicate vectors"] += sum(vectors.values()) - len(vectors)
            found["lone placeholders"] += sum(sent.text == "…" for sent in telegram.sent(chat))
        summaries = Counter(_covered(text) for text in model.summaries())
        found["summaries"] = len(summaries)
        found["repeated summaries"] = sum(summaries.values()) - len(summaries)
        # Only a worker that is killed between the model's answer and the write has to ask again.
        assert found["repeated summaries"] <= self.worker_kills
        assert found["lone placeholders"] <= self.kills
        return found


def _answers(telegram: TelegramServer, chat: int) -> list[str]:
    """Return the complete answers that the user sees, without the notice of a new session."""
    shown = [text.partition("\n\nCreated session")[0] for text in telegram.said(chat)]
    return [text for text in shown if text.endswith(f"of {chat}")]


def _covered(request: str) -> str:
    """Return the conversation in a request for a summary, without the markers, which differ each time."""
    return "\n".join(line for line in request.splitlines() if not line.startswith(("<", "</")))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parser.parse_args()
    print(f"seed {options.seed}")
    with tempfile.TemporaryDirectory() as folder:
        for name, number in Storm(Path(folder), options.seed).run(options.kills).items():
            print(f"{number:>7}  {name}")


if __name__ == "__main__":
    main()
