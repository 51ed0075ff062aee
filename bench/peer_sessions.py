"""Runs in the peers' environment: loads from or appends to one framework's SQLite sessions, as lines of JSON request.

Each is used as its documentation shows, and each load uses an existing object.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sqlite3
import sys
import time
from typing import Any


class OpenAi:
    """openai-agents: a table of items; a limit is part of the query."""

    def __init__(self, path: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._session = importlib.import_module("agents").SQLiteSession("long", f"{path}.db")

    def build(self, said: list[str]) -> str:
        items = [{"role": _role(number), "content": text} for number, text in enumerate(said)]
        self._loop.run_until_complete(self._session.add_items(items))
        return "one add_items with all of them (the rows are those of single calls)"

    def load(self, count: int) -> list[Any]:
        loaded: list[Any] = self._loop.run_until_complete(self._session.get_items(count or None))
        return loaded

    def text(self, item: Any) -> str:
        return str(item["content"])


class LangGraph:
    """langgraph: a graph over MessagesState; every turn saves the whole state, and a load reads the newest one."""

    TURNS = 10

    def __init__(self, path: str) -> None:
        saver = importlib.import_module("langgraph.checkpoint.sqlite").SqliteSaver
        graph = importlib.import_module("langgraph.graph")
        self._messages = importlib.import_module("langchain_core.messages")
        self._saver = saver(sqlite3.connect(f"{path}.db", check_same_thread=False))
        self._replies: list[str] = []
        builder = graph.StateGraph(graph.MessagesState)
        builder.add_node("reply", self._reply)
        builder.add_edge(graph.START, "reply")
        builder.add_edge("reply", graph.END)
        self._graph = builder.compile(checkpointer=self._saver)
        self._config = {"configurable": {"thread_id": "long"}}

    def _reply(self, _: Any) -> dict[str, list[Any]]:
        return {"messages": [self._messages.AIMessage(self._replies.pop(0))]}

    def build(self, said: list[str]) -> str:
        start = time.perf_counter()
        first = len(said) - 2 * self.TURNS
        kinds = (self._messages.HumanMessage, self._messages.AIMessage)
        older = [kinds[number % 2](text) for number, text in enumerate(said[:first])]
        self._graph.update_state(self._config, {"messages": older}, as_node="reply")
        self._replies = said[first + 1 :: 2]
        for text in said[first::2]:
            self._graph.invoke({"messages": [self._messages.HumanMessage(text)]}, self._config)
        took = f"{time.perf_counter() - start:.1f} s; all as turns would take hours"
        return f"update_state with the first {first:,}, then {self.TURNS} turns of the graph, {took}"

    def load(self, count: int) -> list[Any]:
        loaded: list[Any] = self._saver.get_tuple(self._config).checkpoint["channel_values"]["messages"]
        return loaded[-count:]  # it cannot load less

    def text(self, item: Any) -> str:
        return str(item.content)


class Adk:
    """google-adk: a table of events; the number of recent ones is part of the query."""

    def __init__(self, path: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._who = {"app_name": "bench", "user_id": "me"}
        sessions = importlib.import_module("google.adk.sessions.sqlite_session_service")
        self._recent = importlib.import_module("google.adk.sessions.base_session_service").GetSessionConfig
        self._event = importlib.import_module("google.adk.events.event").Event
        self._types = importlib.import_module("google.genai.types")
        self._service = sessions.SqliteSessionService(f"{path}.db")

    def build(self, said: list[str]) -> str:
        start = time.perf_counter()
        self._loop.run_until_complete(self._append(said))
        return f"one append_event per message, {time.perf_counter() - start:.1f} s"

    async def _append(self, said: list[str]) -> None:
        session = await self._service.create_session(session_id="long", **self._who)
        for number, text in enumerate(said):
            author = "model" if number % 2 else "user"
            content = self._types.Content(role=author, parts=[self._types.Part(text=text)])
            await self._service.append_event(session, self._event(author=author, content=content))

    def load(self, count: int) -> list[Any]:
        config = self._recent(num_recent_events=count) if count else None
        session = self._loop.run_until_complete(
            self._service.get_session(session_id="long", config=config, **self._who)
        )
        loaded: list[Any] = session.events
        return loaded

    def text(self, item: Any) -> str:
        return str(item.content.parts[0].text)


def _role(number: int) -> str:
    return "assistant" if number % 2 else "user"


async def append(agents: Any, session: Any, path: str, items: list[dict[str, str]]) -> float:
    """Append one item at a time and return the seconds; without a session, open one for each item."""
    start = time.perf_counter()
    for item in items:
        if session is not None:
            await session.add_items([item])
        else:
            opened = agents.SQLiteSession("closed", path)
            await opened.add_items([item])
            opened.close()
    return time.perf_counter() - start


async def append_to(path: str) -> None:
    """Append to openai-agents' SQLiteSession until the input ends."""
    agents = importlib.import_module("agents")
    session = agents.SQLiteSession("held", path)
    items: list[dict[str, str]] = []
    for line in sys.stdin:
        question = json.loads(line)
        answer = 0.0
        if "items" in question:
            items = question["items"]
        else:
            part = items[question["first"] : question["first"] + question["count"]]
            answer = await append(agents, session if question["held"] else None, path, part)
        sys.stdout.write(f"{answer!r}\n")
        sys.stdout.flush()


def load_from(name: str, path: str) -> None:
    """Load from a framework's sessions until the input ends."""
    kinds: dict[str, type[OpenAi | LangGraph | Adk]] = {
        "openai": OpenAi,
        "langgraph": LangGraph,
        "adk": Adk,
    }
    store = kinds[name](path)
    for line in sys.stdin:
        question = json.loads(line)
        answer: Any
        if "build" in question:
            answer = store.build(question["build"])
        else:
            start = time.perf_counter()
            loaded = store.load(question["load"])
            seconds = time.perf_counter() - start
            answer = {"seconds": seconds, "count": len(loaded), "last": store.text(loaded[-1])}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if sys.argv[1] == "append":
    asyncio.run(append_to(sys.argv[2]))
else:
    load_from(*sys.argv[1:])
