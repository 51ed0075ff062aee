"""Where the time of a page goes: the application in this process, with a clock around its slow parts.

python -m bench.web_parts [--many 10000] [--long 10000] [--rounds 20]

A part contains those below it: `find` contains the refresh of the list, `total` everything. `live` is the state that
an open page asks for every 0.6 s.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from unittest import mock

import httpx

from bench.common import arguments, print_table, work_folder
from bench.faces import home_environment
from bench.list import fill
from bench.web import add_long, addresses
from cortext.index.search.engine import Engine
from cortext.services.library.finder import Finder
from cortext.services.library.listing import Listing
from cortext.services.library.search import Search
from cortext.web import home, library, pages
from cortext.web.app import application
from cortext.web.library import Library, store_key
from cortext.web.security import Access

PARTS: dict[str, tuple[object, str]] = {
    "refresh of the list": (Listing, "refresh"),
    "find": (Finder, "find"),
    "update of the index": (Engine, "update"),
    "rank": (Engine, "find"),
    "read and cut": (Search, "_grouped"),
    "mask": (library, "_masked"),
    "cards": (home, "_card"),
    "page": (pages, "page"),
}


def main() -> None:
    options = arguments(__doc__ or "", many=10_000, long=10_000, rounds=20)
    with work_folder() as base:
        folder, user = os.path.join(base, "folder"), os.path.join(base, "home")
        os.mkdir(user)
        fill(folder, options.many)
        long_id = add_long(folder, options.many + 1, options.long)
        os.environ.clear()
        os.environ.update(home_environment(user))
        link = f"/c/{store_key(folder)}/{long_id}"
        services = Library(lambda: None, folder)
        try:
            asyncio.run(measure(services, addresses(link, options.long), options.rounds))
        finally:
            services.close()


async def measure(services: Library, paths: dict[str, Callable[[int], str]], rounds: int) -> None:
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


if __name__ == "__main__":
    main()
