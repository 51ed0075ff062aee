"""How soon a message that a hook captured is on the open pages of `cortext web`, with many conversations.

python -m bench.web_live [--many 10000] [--rounds 15] [--seconds 20]

Two pages are open: the list and the conversation. A round writes a turn into a transcript of Claude Code and runs
`cortext hook claude`, as the program does. Measured is the time from the end of that process until the event has
arrived and the page has what is new, as its script asks for it. The idle share is the server's processor time per
second while nothing happens. Exits with 1 if a message took longer than the promised 2 s.
"""

from __future__ import annotations

import http.client
import json
import os
import queue
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from urllib.parse import urlsplit

from bench.common import arguments, print_table, spread, texts, work_folder
from bench.faces import home_environment
from bench.hook import Transcript, payload
from bench.list import fill
from bench.watch import peak_memory, share

PROMISED = 2.0  # seconds
PATIENCE = 60.0
PROGRAM = (sys.executable, "-m", "cortext.faces.cortext.main")


class Follower:
    """An open page: it waits for an event, then asks for what is new, as the script of the page does."""

    def __init__(self, host: str, cookie: str, live: str, ask: str) -> None:
        self.host, self.headers, self.ask = host, {"Cookie": cookie}, ask
        self.seen: queue.Queue[tuple[float, str]] = queue.Queue()
        self._connection = http.client.HTTPConnection(host, timeout=600)
        self._connection.request("GET", live, headers=self.headers)
        self._events = self._connection.getresponse()
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        while line := self._events.readline():
            if line.startswith(b"event: changed"):
                text = get(self.host, self.ask, self.headers)
                self.seen.put((time.perf_counter(), text))

    def until(self, text: str) -> float:
        """Return when the page had this text."""
        while True:
            at, found = self.seen.get(timeout=PATIENCE)
            if text in found:
                return at


def get(host: str, path: str, headers: dict[str, str]) -> str:
    """Return what the server answers."""
    connection = http.client.HTTPConnection(host, timeout=600)
    try:
        connection.request("GET", path, headers=headers)
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def main() -> None:
    options = arguments(__doc__ or "", many=10_000, rounds=15, seconds=20)
    with work_folder() as base:
        folder, home = os.path.join(base, "folder"), os.path.join(base, "home")
        os.mkdir(home)
        fill(folder, options.many)
        key = str(uuid.uuid4())
        talk = Transcript(os.path.join(home, ".claude", "projects", "p", f"{key}.jsonl"), key, folder)
        env = home_environment(home)
        stop = payload({"session_id": key, "transcript_path": talk.path, "cwd": folder}, "Stop")

        def captured(said: list[str]) -> float:
            talk.say(said)
            subprocess.run([*PROGRAM, "hook", "claude"], cwd=folder, env=env, input=stop, check=True)
            return time.perf_counter()

        captured(["Live words?", "Here they are."])
        command = [*PROGRAM, "web", "--no-open", "--json"]
        process = subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            started = json.loads(process.stdout.readline())
            missed = measure(started["address"], process.pid, captured, options.rounds, options.seconds)
        finally:
            process.terminate()
            process.wait()
    raise SystemExit(int(missed))


def measure(address: str, process: int, captured: Callable[[list[str]], float], rounds: int, seconds: int) -> bool:
    """Print the times; return whether one was too long."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.netloc, timeout=600)
    connection.request("GET", f"{parts.path}?{parts.query}")
    cookie = (connection.getresponse().getheader("set-cookie") or "").partition(";")[0]
    headers = {"Cookie": cookie}
    page = get(parts.netloc, "/?tool=claude", headers)
    link = page.partition('<a href="/c/')[2].partition('"')[0].partition("?")[0]
    reader = Follower(parts.netloc, cookie, f"/c/{link}/live", f"/c/{link}/messages?from=0&count=200")
    lister = Follower(parts.netloc, cookie, "/live", "/results?tool=claude")
    time.sleep(2)
    idle = share(process, seconds)
    times: dict[str, list[float]] = {"the conversation": [], "the list": []}
    for number, text in enumerate(texts(rounds, seed=5)):
        began = captured([f"round-{number:04} {text}", "yes"])
        times["the conversation"].append(reader.until(f"round-{number:04}") - began)
        times["the list"].append(lister.until(f">{2 * number + 4} messages<") - began)
    rows = [(name, spread(values).show("{:.2f}"), f"≤ {PROMISED:g}") for name, values in times.items()]
    print_table(("a captured message is in, s after the hook", "seconds", "promised"), rows)
    print(f"idle, with both pages open: {idle:.1f} % of a core; peak memory: {peak_memory(process):.0f} MB")
    return max(map(max, times.values())) > PROMISED


if __name__ == "__main__":
    main()
