"""The structured data of the answers that clients can rely on. A later version may add fields."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta


class SessionData(msgspec.Struct, kw_only=True):
    """A session; empty fields are left out. `place` says where git has one that is no longer in the work tree."""

    id: str
    title: str = ""
    type: str = ""
    status: str = ""
    place: str = ""
    tool: str = ""
    agent: str = ""
    workspace: str = ""
    created_at: str = ""
    last_active: str = ""
    message_count: int = 0
    summary: str = ""
    tags: list[str] = []
    starred: bool = False
    archived: bool = False


class Quotation(msgspec.Struct, kw_only=True):
    """A message, or a part of it."""

    seq: int
    role: str
    text: str
    timestamp: str = ""


class MessageData(Quotation, kw_only=True):
    """A message; its `mark` says whether it was cut off or is an aside."""

    mark: str = ""


class PassageData(Quotation, kw_only=True):
    """A matching message, with its neighbours. Of get_context, only the first of a session on a day has a timestamp."""

    before: str = ""
    after: str = ""


class MatchData(msgspec.Struct, kw_only=True):
    """A session with its matching messages."""

    session: SessionData
    passages: list[PassageData]


class DecisionData(msgspec.Struct, kw_only=True):
    """A decision with its date and its session; `by` is who settled it, `reversed_by` is `session#seq`."""

    date: str
    text: str
    session: str
    seq: int
    role: str = ""
    title: str = ""
    by: str = ""
    rejected: str = ""
    reversed_by: str = ""
    times: int = 1


class TurnData(msgspec.Struct, kw_only=True):
    """The turn of an edit: the message that made it, and quotations, each with the number of its message."""

    seq: int
    timestamp: str = ""
    call: str = ""
    path: str = ""
    ask: str = ""
    ask_seq: int = -1
    answers: str = ""
    said: str = ""
    decision: str = ""
    decision_seq: int = -1


class OriginData(msgspec.Struct, kw_only=True):
    """A session that wrote something: how sure that is, how many lines it is known by, and the turn of the edit."""

    session: SessionData
    confidence: str
    matched_lines: int
    compared_lines: int
    turn: TurnData | None = None
    named_by_commit: bool = False


class CommitData(msgspec.Struct, kw_only=True):
    """A commit."""

    sha: str
    author: str = ""
    date: str = ""
    subject: str = ""


class TouchData(msgspec.Struct, kw_only=True):
    """What a session did with a file; not `sure` if its project cannot be recognised on this machine."""

    session: SessionData
    changed: int
    read: int
    seq: int
    timestamp: str = ""
    sure: bool = True


class NotedAnswer(msgspec.Struct, kw_only=True):
    """What every answer has: a note that it is a record of the past."""

    note: str


class PagedAnswer(NotedAnswer, kw_only=True):
    """An answer that may go on."""

    next_cursor: Annotated[str | None, Meta(description="the cursor of the next page; null if there is none")]


class AskedAnswer(PagedAnswer, kw_only=True):
    """An answer to a query."""

    absent: Annotated[list[str], Meta(description="what of the query occurs in no message")] = []


class SearchAnswer(AskedAnswer, kw_only=True):
    results: list[MatchData]


class DecisionsAnswer(AskedAnswer, kw_only=True):
    decisions: list[DecisionData]


class ListAnswer(PagedAnswer, kw_only=True):
    sessions: list[SessionData]
    total: int = 0


class TouchAnswer(PagedAnswer, kw_only=True):
    results: list[TouchData]


class SessionAnswer(NotedAnswer, kw_only=True):
    session: SessionData
    messages: list[MessageData]
    next_start: int | None = None
    next_offset: int = 0


class SaveAnswer(NotedAnswer, kw_only=True):
    session: SessionData
    stopped_at: str = ""
    dropped: list[str] = []
    commit: str = ""
    problem: str = ""


class ResumeAnswer(NotedAnswer, kw_only=True):
    packet: str = ""
    messages: int = 0
    of_messages: int = 0
    tokens: int = 0
    price: str = ""
    sessions: list[SessionData] = []
    attached: bool = False
    done: str = ""


class WhyAnswer(NotedAnswer, kw_only=True):
    origins: list[OriginData]
    commit: CommitData | None = None
    text: str = ""
    why_not: str = ""
