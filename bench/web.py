"""`cortext web` with many conversations and a long one: what the server takes for a page, warm, and its memory.

A long conversation is also opened once cold, and scrolled in a browser.

python -m bench.web [--many 10000] [--long 10000] [--rounds 60] [--realtime 0] [--messages 0]

With `--realtime 1` the server, and this process while it measures, run as `chrt -f 10` does (as root): other
processes stay out of the measurement.
The first page in a browser is measured too, if Chromium and Playwright are installed. With `--messages 1000000`, only
the search is measured, in the synthetic history of `bench.search` (kept in .cache/corpus): queries that are not
repeated, of five kinds.
"""

from __future__ import annotations

import http.client
import importlib.util
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import urlencode, urlsplit

from bench.common import CACHE, arguments, in_turns, print_table, texts, work_folder
from bench.faces import home_environment, session
from bench.list import fill
from bench.search import WARM_UP, prepared, questions
from bench.search_corpus import make
from cortext.model.message import TOOL_CALL, TOOL_RESULT, Message, Part
from cortext.store.files.workspace import WorkspaceStore
from cortext.web.library import store_key

TARGETS = {"home": 100, "filter": 100, "search": 150, "conversation": 150, "piece": 150}  # p95 in ms
WORDS = ("retry budget", "clear error", "topic 4711", "three tries", "why does the path not exist")


def main() -> None:
    options = arguments(__doc__ or "", many=10_000, long=10_000, rounds=60, realtime=0, messages=0)
    if options.messages:
        million(options.messages, options.rounds, realtime=bool(options.realtime))
        return
    with work_folder() as base:
        folder, home = os.path.join(base, "folder"), os.path.join(base, "home")
        os.mkdir(home)
        fill(folder, options.many)
        long_id = add_long(folder, options.many + 1, options.long)
        with served(folder, home, realtime=bool(options.realtime)) as (address, process):
            if options.realtime:
                before_all_others()
            measure(address, process, f"/c/{store_key(folder)}/{long_id}", options.long, options.rounds)


@contextmanager
def served(folder: str, home: str, *, realtime: bool) -> Iterator[tuple[str, int]]:
    """Run the server in this folder and home; yield its address and its process."""
    prefix = ["chrt", "-f", "10"] if realtime else []
    command = [*prefix, sys.executable, "-m", "cortext.faces.cortext.main", "web", "--no-open", "--json"]
    process = subprocess.Popen(command, cwd=folder, env=home_environment(home), stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        started = json.loads(process.stdout.readline())
        yield started["address"], started["process"]
    finally:
        process.terminate()
        process.wait()


def before_all_others() -> None:
    """Let this process run before all ordinary ones, as `chrt -f 10` does."""
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))


def million(messages: int, rounds: int, *, realtime: bool) -> None:
    """Print how long the page takes to search in very many messages."""
    folder = os.path.join(CACHE, "corpus")
    make(folder, messages, messages // 50)
    home = prepared(folder, keep=True)
    with served(folder, home, realtime=realtime) as (address, process):
        if realtime:
            before_all_others()
        parts = urlsplit(address)
        connection = http.client.HTTPConnection(parts.netloc, timeout=600)
        connection.request("GET", f"{parts.path}?{parts.query}")
        answer = connection.getresponse()
        answer.read()
        headers = {"Cookie": (answer.getheader("set-cookie") or "").partition(";")[0]}

        def asked(text: str) -> float:
            begin = time.perf_counter()
            connection.request("GET", f"/results?{urlencode({'q': text})}", headers=headers)
            found = connection.getresponse().read()
            seconds = time.perf_counter() - begin
            if b"data-again" in found:
                time.sleep(1)
                return asked(text)
            time.sleep(0.02)
            return seconds

        rows = []
        for kind, queries in questions(rounds + WARM_UP).items():
            ordered = sorted([asked(text) * 1000 for text in queries][WARM_UP:])
            rows.append((kind, f"{ordered[len(ordered) // 2]:.0f}", f"{ordered[int(len(ordered) * 0.95)]:.0f}", "150"))
        print(f"{messages:,} messages, {rounds} queries of each kind; load {os.getloadavg()[0]:.1f}\n")
        print_table(("search, ms", "p50", "p95", "target p95"), rows)
        print(f"memory of the server: {resident(process)} MB")


def add_long(folder: str, number: int, count: int) -> str:
    """Add a conversation of many messages, half of them calls and results; return its id."""
    store = WorkspaceStore(folder)
    made = store.create(session(number))
    messages = []
    for index, text in enumerate(texts(count)):
        when = f"2026-10-{1 + index * 28 // count:02}T10:{index % 60:02}:00Z"
        message = Message(role=("user", "assistant", "assistant", "tool")[index % 4], content=text, timestamp=when)
        if index % 4 == 2:
            call = Part(TOOL_CALL, id=f"c{index}", name="Bash", input={"command": text[:200]})
            message.content, message.parts = "", [call]
        elif index % 4 == 3:
            message.content, message.parts = "", [Part(TOOL_RESULT, call_id=f"c{index - 1}", output=text)]
        messages.append(message)
    store.append(made.id, *messages)
    return made.id


def addresses(link: str, long: int) -> dict[str, Callable[[int], str]]:
    """Return what is asked for, by the number of the round."""
    generator = random.Random(1)
    return {
        "home": lambda number: "/",
        "filter": lambda number: f"/results?type=plan&after={1 + number % 300}d",
        "search": lambda number: f"/results?q={WORDS[number % len(WORDS)].replace(' ', '+')}",
        "conversation": lambda number: f"{link}?at={generator.randrange(long)}",
        "piece": lambda number: f"{link}/messages?from={generator.randrange(long)}",
    }


def measure(address: str, process: int, link: str, long: int, rounds: int) -> None:
    """Ask for each kind of page in turns, and print the times."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.netloc, timeout=600)

    def get(path: str, cookie: str = "") -> tuple[http.client.HTTPResponse, str]:
        connection.request("GET", path, headers={"Cookie": cookie} if cookie else {})
        answer = connection.getresponse()
        return answer, answer.read().decode()

    answer, _ = get(f"{parts.path}?{parts.query}")
    cookie = (answer.getheader("set-cookie") or "").partition(";")[0]

    def timed(path: Callable[[int], str]) -> Callable[[int], float]:
        def run(number: int) -> float:
            begin = time.perf_counter()
            answer, text = get(path(number), cookie)
            seconds = time.perf_counter() - begin
            if answer.status != 200:
                raise SystemExit(f"{path(number)}: {answer.status} {text[:200]}")
            time.sleep(0.02)  # a person is slower than the limit on requests
            return seconds

        return run

    while "data-again" in get("/results?q=retry", cookie)[1]:  # the index is being built
        time.sleep(1)
    following = [http.client.HTTPConnection(parts.netloc, timeout=600) for _ in range(2)]
    for each, path in zip(following, ("/live", f"{link}/live"), strict=True):  # as every open page does
        each.request("GET", path, headers={"Cookie": cookie})
        each.getresponse()
    print(f"first look at the long conversation: {timed(lambda number: link)(0) * 1000:.0f} ms")
    contenders = {name: timed(path) for name, path in addresses(link, long).items()}
    in_turns(contenders, len(WORDS))
    seconds = in_turns(contenders, rounds)
    rows = []
    for name, values in seconds.items():
        ordered = sorted(value * 1000 for value in values)
        p50, p95 = ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.95)]
        rows.append((name, f"{p50:.0f}", f"{p95:.0f}", f"{ordered[-1]:.0f}", f"{TARGETS[name]}"))
    print_table(("page, ms", "p50", "p95", "most", "target p95"), rows)
    print(f"memory of the server: {resident(process)} MB; load {os.getloadavg()[0]:.1f}")
    in_browser(parts.netloc, cookie, link)


def resident(process: int) -> int:
    """Return the megabytes of memory that a process has."""
    with open(f"/proc/{process}/status", encoding="utf-8") as status:
        line = next(line for line in status if line.startswith("VmRSS:"))
    return int(line.split()[1]) // 1024


SCROLL = """() => {
    window.tasks = [];
    new PerformanceObserver(found => window.tasks.push(...found.getEntries().map(each => each.duration)))
        .observe({type: 'longtask', buffered: true});
}"""


def in_browser(host: str, cookie: str, link: str) -> None:
    """Print how long the first page takes in a browser, from the request to the load event, and how scrolling feels."""
    names = ("chromium-headless-shell", "chromium", "google-chrome")
    program = next((path for name in names if (path := shutil.which(name))), None)
    if program is None or importlib.util.find_spec("playwright") is None:
        print("no browser here")
        return
    from playwright.sync_api import sync_playwright

    name, _, value = cookie.partition("=")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        context = browser.new_context()
        context.add_cookies([{"name": name, "value": value, "url": f"http://{host}"}])
        page = context.new_page()
        page.set_default_timeout(120_000)
        times = []
        for _ in range(7):
            page.goto(f"http://{host}/")
            times.append(page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd"))
        page.goto(f"http://{host}{link}")
        page.evaluate(SCROLL)
        for _ in range(60):
            page.mouse.wheel(0, 3_000)
            page.wait_for_timeout(50)
        tasks = page.evaluate("window.tasks")
        pieces = page.evaluate(
            "performance.getEntriesByType('resource').filter(e => e.name.includes('/messages?')).map(e => e.duration)"
        )
        last = page.evaluate("+[...document.querySelectorAll('#messages article')].at(-1).dataset.seq")
        browser.close()
    print(
        f"scrolled to message {last}: {len(pieces)} pieces of 40, {sorted(pieces)[len(pieces) // 2]:.0f} ms in the "
        f"middle, {max(pieces):.0f} at most; {len(tasks)} tasks over 50 ms, {max(tasks, default=0):.0f} ms at most"
    )
    times.sort()
    print(f"first page in the browser, ms: {times[3]:.0f} ({times[0]:.0f}..{times[-1]:.0f})")


if __name__ == "__main__":
    main()
