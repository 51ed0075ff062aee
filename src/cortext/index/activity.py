"""What sessions did, read from their logs: which calls of models with their tokens, on which day, and with which files.

The tables are made and filled when they are first asked for, because most users never need them, and again for a
session that changed. A call that several sessions contain (forks and resumed chats copy it) is stored for each of them
and counted for the one that was created first.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import NamedTuple, TypeGuard

from cortext.index.derived import Derived, Progress
from cortext.index.sessions import Row
from cortext.model import clock
from cortext.model.message import Message
from cortext.model.tokens import CALL, FIVE_HOURS, LIMITS, WEEK, Tokens, is_addition, used

_TABLES = (
    """CREATE TABLE IF NOT EXISTS active (
    number INTEGER PRIMARY KEY, root TEXT, id TEXT, fingerprint TEXT, created_at TEXT, UNIQUE (root, id))""",
    """CREATE TABLE IF NOT EXISTS said (
    number INTEGER, day TEXT, model TEXT, messages INTEGER, tokens INTEGER,
    PRIMARY KEY (number, day, model)) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS used_file (
    number INTEGER, path TEXT, changed INTEGER, read INTEGER, last TEXT, PRIMARY KEY (number, path)) WITHOUT ROWID""",
)


class Said(NamedTuple):
    """Messages of a day; `model` is the one that wrote them, or empty. Without a time, the day is empty.

    `tokens` is the size of these messages, as in the list.
    """

    day: str
    model: str
    messages: int
    tokens: int


class UsedFile(NamedTuple):
    """A file as the tools named it: how often it was changed and read, and the day on which it was used last."""

    path: str
    changed: int
    read: int
    last: str


class Activity(NamedTuple):
    """The activity in one session."""

    said: Sequence[Said]
    files: Sequence[UsedFile]


class ActivityIndex:
    """The activity in the sessions of a catalogue."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._derived: Derived[Activity] = Derived(database, "active", ("said", "used_file"), _TABLES)

    def update(
        self,
        rows: Iterable[Row],
        read: Callable[[Row], Activity | None],
        progress: Progress | None = None,
        *,
        is_missing: Callable[[str], bool] = lambda root: False,
    ) -> None:
        """Read the sessions that changed, and forget those that are not among the rows: see `Derived.update`."""
        self._derived.update(rows, read, self._put, progress, is_missing)

    def _put(self, found: Sequence[tuple[int, Activity]]) -> None:
        for number, activity in found:
            for table, entries in (("said", activity.said), ("used_file", activity.files)):
                rows = [(number, *entry) for entry in entries]
                if rows:
                    values = ",".join("?" * len(rows[0]))
                    self._derived.database.executemany(f"INSERT INTO {table} VALUES ({values})", rows)

    def said(self, rows: Iterable[Row]) -> Iterator[tuple[Row, Said]]:
        """Yield what was said in these sessions, by session, day and model."""
        numbers = self._derived.numbers(rows)
        for number, *said in self._derived.database.execute("SELECT * FROM said"):
            if number in numbers:
                yield numbers[number], Said(*said)

    def files(self, rows: Iterable[Row]) -> Iterator[tuple[Row, UsedFile]]:
        """Yield the files that these sessions used."""
        numbers = self._derived.numbers(rows)
        for number, *file in self._derived.database.execute("SELECT * FROM used_file"):
            if number in numbers:
                yield numbers[number], UsedFile(*file)


RECENT = 50  # sessions that show which models are in use
FEW = 200  # sessions whose calls are looked up one by one


class ModelCall(NamedTuple):
    """One call of a model. `at` is in seconds since 1970, 0 if unknown; `tool` is empty if the record does not say."""

    at: int
    model: str
    tool: str
    tokens: Tokens
    cost: float | None  # as the tool recorded it, in dollars
    window_end: int = 0  # when the limit of five hours is reset, as the tool recorded it; 0 if it did not
    week_end: int = 0  # the same for the limit of a week


class CallIndex:
    """The calls in the sessions of a catalogue."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._derived: Derived[dict[int, ModelCall]] = Derived(database, "called", ("call",))

    @property
    def _database(self) -> sqlite3.Connection:
        return self._derived.database

    def update(
        self,
        rows: Iterable[Row],
        messages: Callable[[Row], Iterable[Message] | None],
        progress: Progress | None = None,
        *,
        is_missing: Callable[[str], bool] = lambda root: False,
    ) -> None:
        """Read the sessions that changed, and forget those that are not among the rows: see `Derived.update`."""

        def read(row: Row) -> dict[int, ModelCall] | None:
            said = messages(row)
            return calls_in(said) if said is not None else None

        self._derived.update(rows, read, self._put, progress, is_missing)

    def _put(self, found: Iterable[tuple[int, dict[int, ModelCall]]]) -> None:
        names = {name: number for number, name in self._database.execute("SELECT number, name FROM call_name")}
        for session, calls in found:
            for name in {text for call in calls.values() for text in (call.model, call.tool)} - names.keys():
                inserted = self._database.execute("INSERT INTO call_name (name) VALUES (?) RETURNING number", (name,))
                names[name] = inserted.fetchone()[0]
            self._database.executemany(
                f"INSERT INTO call VALUES ({','.join('?' * 14)})",
                (
                    (session, key, call.at, names[call.model], names[call.tool], *call.tokens, *call[4:])
                    for key, call in calls.items()
                ),
            )

    def calls(self, rows: Iterable[Row], *, after: float = 0, before: float = 0) -> Iterator[tuple[Row, ModelCall]]:
        """Yield the calls of these sessions within a time (in seconds since 1970; 0: no limit), each of them once.

        Of the sessions that contain a call, the one that was created first has it; if that is not among the rows, the
        call is left out, so that the parts of a whole add up.
        """
        numbers = self._derived.numbers(rows)
        names = dict(self._database.execute("SELECT number, name FROM call_name"))
        # For a short list, only its own calls are read.
        among = f" AND number IN ({','.join(map(str, numbers))})" if len(numbers) <= FEW else ""
        owners = self._owners(among)
        query = f"SELECT * FROM call WHERE at >= ? AND at <= ?{among}"
        for number, key, at, model, tool, *tokens, cost, window_end, week_end in self._database.execute(
            query, (after, before or 2**62)
        ):
            row = numbers.get(number)
            if row is not None and owners.get(key, number) == number:
                yield row, ModelCall(at, names[model], names[tool], Tokens(*tokens), cost, window_end, week_end)

    def of(self, row: Row) -> dict[int, ModelCall] | None:
        """Return the calls of one session by their keys; None if it was not read since it changed."""
        number = self._derived.number(row)
        if number is None:
            return None
        names = dict(self._database.execute("SELECT number, name FROM call_name"))
        found = self._database.execute("SELECT * FROM call WHERE number = ?", (number,))
        return {
            key: ModelCall(at, names[model], names[tool], Tokens(*tokens), cost, window_end, week_end)
            for _, key, at, model, tool, *tokens, cost, window_end, week_end in found
        }

    def copied(self, keys: Iterable[int], root: str, session_id: str, created_at: str) -> set[int]:
        """Return those of the calls of a session that an older one contains too, as far as sessions were read."""
        query = """
        SELECT key FROM call JOIN called USING (number)
        WHERE key = ? AND (root, id) != (?, ?) AND (created_at, id, root) < (?, ?, ?) LIMIT 1
        """
        this = (root, session_id, created_at, session_id, root)
        return {key for key in keys if self._database.execute(query, (key, *this)).fetchone() is not None}

    def models(self) -> dict[str, str]:
        """Return the model that each tool used last, in the sessions that were active last and were read."""
        query = f"""
        SELECT coalesce(nullif(tool.name, ''), recent.tool) AS used, model.name, max(at)
        FROM (SELECT root, id, tool FROM session ORDER BY last_active DESC LIMIT {RECENT}) AS recent
        JOIN called USING (root, id) JOIN call USING (number)
        JOIN call_name AS tool ON tool.number = call.tool JOIN call_name AS model ON model.number = call.model
        WHERE used != '' AND model.name != '' GROUP BY used ORDER BY max(at) DESC
        """
        return {tool: model for tool, model, _ in self._database.execute(query)}

    def _owners(self, among: str = "") -> dict[int, int]:
        """Return, for every call that several sessions contain, the session that was created first.

        `among` is a condition on the sessions whose calls matter.
        """
        chosen = f"WHERE key IN (SELECT key FROM call WHERE 1{among})" if among else ""
        repeated = f"SELECT key FROM call {chosen} GROUP BY key HAVING count(*) > 1"
        query = f"""
        SELECT key, number FROM call JOIN called USING (number)
        WHERE key IN ({repeated}) ORDER BY created_at, id, root
        """
        owners: dict[int, int] = {}
        for key, number in self._database.execute(query):
            owners.setdefault(key, number)
        return owners


def calls_in(messages: Iterable[Message]) -> dict[int, ModelCall]:
    """Return the calls of a session. What an answer grew by after its first record is added to its call.

    If the records of two answers alternate, each of them says the whole: the longest answer counts.
    """
    calls: dict[int, ModelCall] = {}
    for message in messages:
        found = used(message.usage)
        if found is None:
            continue
        call = message.extra.get(CALL) if message.extra else None
        key = _number(call if isinstance(call, str) and call else message.id)
        known = calls.get(key)
        if known is None:
            at = int(clock.to_epoch(message.timestamp) or 0)
            calls[key] = ModelCall(at, message.model, found.tool, found.tokens, found.cost, *_resets(message))
        elif is_addition(message.usage):
            calls[key] = known._replace(tokens=known.tokens.plus(found.tokens))
        elif found.tokens.output > known.tokens.output:
            calls[key] = known._replace(tokens=found.tokens, cost=found.cost)
    return calls


def _resets(message: Message) -> tuple[int, int]:
    """Return when the limits of five hours and of a week are reset, as the tool recorded it; 0 if it did not."""
    limits = message.extra.get(LIMITS) if message.extra else None
    if not isinstance(limits, dict):
        return 0, 0
    window, week = limits.get(FIVE_HOURS), limits.get(WEEK)
    return window if _is_time(window) else 0, week if _is_time(week) else 0


def _is_time(value: object) -> TypeGuard[int]:
    """Whether a value that someone else wrote can be a time in seconds since 1970."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**40


def _number(text: str) -> int:
    """Return 63 bits of a hash, which SQLite stores as an integer."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()) >> 1
