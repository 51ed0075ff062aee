"""`cortext web`: what a page takes, how soon a new message is on it, and where the time goes."""

from __future__ import annotations

import asyncio
import http.client
import importlib.util
import json
import os
import queue
import random
import shutil
import subprocess
import sys
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock
from urllib.parse import urlencode, urlsplit

import httpx

from bench.commands import Transcript, fill, payload
from bench.common import CACHE, arguments, home_environment, in_turns, print_table, session, spread, texts, work_folder
from bench.search import WARM_UP, make, prepared, questions
from bench.watch import peak_memory, share
from cortext.index.search.engine import Engine
from cortext.model.message import TOOL_CALL, TOOL_RESULT, Message, Part
from cortext.services.library.listing import Listing
from cortext.services.library.search import Search
from cortext.services.library.typed_search import TypedSearch
from cortext.store.files.workspace import WorkspaceStore
from cortext.web import home, library, pages
from cortext.web.app import application
from cortext.web.library import PageLibrary, store_key
from cortext.web.security import Access

TARGETS = {"home": 100, "filter": 100, "search": 150, "conversation": 150, "piece": 150}  # p95 in ms
WORDS = ("retry budget", "clear error", "topic 4711", "three tries", "why does the path not exist")
PROMISED = 2.0  # seconds
PATIENCE = 60.0
PROGRAM = (sys.executable, "-m", "cortext.faces.cortext.main")
PARTS: dict[str, tuple[object, str]] = {
    "refresh of the list": (Listing, "refresh"),
    "find": (TypedSearch, "find"),
    "update of the index": (Engine, "update"),
    "rank": (Engine, "find"),
    "read and cut": (Search, "_grouped"),
    "mask": (library, "_masked"),
    "cards": (home, "_card"),
    "page": (pages, "page"),
}


def run_web() -> None:
    """`cortext web` with many conversations and a long one: what the server takes for a page, warm, and its memory.

    A long conversation is also opened once cold, and scrolled in a browser.

    python -m bench web [--many 10000] [--long 10000] [--rounds 60] [--realtime 0] [--messages 0]

    With `--realtime 1` the server, and this process while it measures, run as `chrt -f 10` does (as root): other
    processes stay out of the measurement. The first page in a browser is measured too, if Chromium and Playwright are
    installed. With `--messages 1000000`, only the search is measured, in the synthetic history of `bench search` (kept
    in .cache/corpus): queries that are not repeated, of five kinds.
    """
    options = arguments(run_web, many=10_000, long=10_000, rounds=60, realtime=0, messages=0)
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


def run_web_live() -> None:
    """How soon a message that a hook captured is on the open pages of `cortext web`, with many conversations.

    python -m bench web_live [--many 10000] [--rounds 15] [--seconds 20]

    Two pages are open: the list and the conversation. A round writes a turn into a transcript of Claude Code and runs
    `cortext hook claude`, as the program does. Measured is the time from the end of that process until the event has
    arrived and the page has what is new, as its script asks for it. The idle share is the server's processor time per
    second while nothing happens. Exits with 1 if a message took longer than the promised 2 s.
    """
    options = arguments(run_web_live, many=10_000, rounds=15, seconds=20)
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
            missed = measure_live(started["address"], process.pid, captured, options.rounds, options.seconds)
        finally:
            process.terminate()
            process.wait()
    raise SystemExit(int(missed))


def measure_live(address: str, process: int, captured: Callable[[list[str]], float], rounds: int, seconds: int) -> bool:
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


def run_web_parts() -> None:
    """Where the time of a page goes: the application in this process, with a clock around its slow parts.

    python -m bench web_parts [--many 10000] [--long 10000] [--rounds 20]

    A part contains those below it: `find` contains the refresh of the list, `total` everything. `live` is the state
    that an open page asks for every 0.6 s.
    """
    options = arguments(run_web_parts, many=10_000, long=10_000, rounds=20)
    with work_folder() as base:
        folder, user = os.path.join(base, "folder"), os.path.join(base, "home")
        os.mkdir(user)
        fill(folder, options.many)
        long_id = add_long(folder, options.many + 1, options.long)
        os.environ.clear()
        os.environ.update(home_environment(user))
        link = f"/c/{store_key(folder)}/{long_id}"
        services = PageLibrary(lambda: None, folder)
        try:
            asyncio.run(measure_parts(services, addresses(link, options.long), options.rounds))
        finally:
            services.close()


async def measure_parts(services: PageLibrary, paths: dict[str, Callable[[int], str]], rounds: int) -> None:
    """Ask for each kind of page in turns, and print the mean milliseconds of each part."""
    app, _ = application(services, Access(80, ("127.0.0.1",)))
    transport = httpx.ASGITransport(app)
    spent: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    current = [""]

    def timed(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def run(*words: Any, **named: Any) -> Any:
            began = time.perf_counter()
            try:
                return work(*words, **named)
            finally:
                spent[current[0]][name] += time.perf_counter() - began

        return run

    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=600) as client:

        async def get(path: str) -> None:
            answer = await client.get(path)
            if answer.status_code != 200:
                raise SystemExit(f"{path}: {answer.status_code} {answer.text[:200]}")

        while "data-again" in (await client.get("/results?q=retry")).text:
            await asyncio.sleep(1)
        with ExitStack() as patches:
            for name, (owner, attribute) in PARTS.items():
                work = timed(name, getattr(owner, attribute))
                patches.enter_context(mock.patch.object(owner, attribute, work))
            for number in range(rounds):
                for name in (*paths, "live"):
                    current[0] = name
                    began = time.perf_counter()
                    await (get(paths[name](number)) if name in paths else services.state())
                    spent[name]["total"] += time.perf_counter() - began
                    await asyncio.sleep(0.1)
    names = ["total", *PARTS]
    rows = [(page, *(f"{1000 * parts[name] / rounds:.1f}" for name in names)) for page, parts in spent.items()]
    print_table(("ms, mean", *names), rows)
