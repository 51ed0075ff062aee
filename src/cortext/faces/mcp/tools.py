"""The eight tools: each takes what was given and answers within the budget."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from typing import Any

import msgspec

from cortext.errors import NotFound, UsageError
from cortext.faces.mcp import calls, dates
from cortext.faces.mcp.drawing import briefer, decision_entry, flat, session_entry, smaller, told_entry
from cortext.faces.mcp.pages import Answer, cursor_at, fenced, fit, place_of
from cortext.faces.mcp.reading import get_session, resume_session
from cortext.faces.mcp.saving import save_session
from cortext.faces.mcp.world import World
from cortext.services.library.listing import Row
from cortext.services.library.recall import Recall, SessionPassages, without_secrets
from cortext.services.library.search import check_filters

NEAREST = "This is only near it in meaning, and perhaps about something else"
STATUSES = ("active", "paused", "completed", "interrupted", "damaged")


def call(world: World, name: str, arguments: dict[str, Any]) -> Answer:
    """Answer one call; CortextError where it cannot be answered."""
    if name not in TOOLS:
        raise UsageError(f"there is no tool {ascii(name)[:60]}", hint=f"there are {', '.join(TOOLS)}")
    given = calls.decode(calls.SPECS[name].call, arguments)
    world.look()
    return TOOLS[name](world, given).sent()


def search_workspace(world: World, given: calls.SearchWorkspace) -> Answer:
    """What was said in this workspace."""
    query = given.query
    if not world.stores.workspace:
        raise NotFound("this server was not started inside a workspace", hint="search_sessions looks into every store")
    filters = {**_filters(type=given.type), **dates.filters(given.date_range), "workspace": world.stores.workspace}
    start, limit = place_of(given.cursor), given.limit
    # One more than is wanted tells whether there is a next page.
    recall = world.recall
    found = recall.found(query, filters=filters, limit=start + limit + 1, leave_out=given.leave_out)
    return _found(world, recall, found, start, limit, query, "in this workspace")


def search_sessions(world: World, given: calls.SearchSessions) -> Answer:
    """What was said anywhere."""
    query = given.query
    start, limit = place_of(given.cursor), given.top_k
    recall = world.recall
    found = recall.found(
        query,
        filters=_filters(after=given.after, before=given.before),
        limit=start + limit + 1,
        per_session=given.messages_per_session,
        leave_out=given.leave_out,
    )
    return _found(world, recall, found, start, limit, query, "in all sessions")


def get_context(world: World, given: calls.GetContext) -> Answer:
    """Background: the passages at length."""
    topic = given.topic
    start, limit = place_of(given.cursor), given.max_results
    recall = world.recall
    found = recall.found(
        topic, filters={}, limit=start + limit + 1, per_session=2, leave_out=given.leave_out, whole=True
    )
    return _found(world, recall, found, start, limit, topic, "as background")


def _filters(**given: str) -> dict[str, str]:
    """The filters of a search that were given, checked."""
    filters = {name: value for name, value in given.items() if value}
    check_filters(filters)
    return filters


def _found(
    world: World, recall: Recall, found: list[SessionPassages], start: int, limit: int, query: str, where: str
) -> Answer:
    page = fit(found[: start + limit], start, told_entry, world.budget, smaller)
    following = page.following if page.following >= 0 else start + limit if len(found) > start + limit else -1
    data = {"results": page.rows, "next_cursor": cursor_at(following)}
    if not page.texts:
        return Answer(f"Nothing {'more ' if start else ''}was found {where} about {_quoted(query)}.", data)
    below = "To read on around a message: get_session with its session's id and start = the number in [ ]."
    if following >= 0:
        below += f' More was found: call again with cursor "{following}".'
    above = f"Found {where} about {_quoted(query)}, the best first:"
    if recall.by_meaning:
        above = f"No message contains {_quoted(query)}. {NEAREST} ({where}, the nearest first):"
    return Answer(fenced(above, page.texts, below), data)


def get_decision_history(world: World, given: calls.GetDecisionHistory) -> Answer:
    """What was settled, in the order of time."""
    topic = given.topic
    start = place_of(given.cursor)
    recall = world.recall
    settled = recall.decisions(topic, leave_out=given.leave_out)
    page = fit(settled, start, decision_entry, world.budget)
    data = {"decisions": page.rows, "next_cursor": cursor_at(page.following)}
    if not page.texts:
        return Answer(f"No decision was found about {_quoted(topic)}. get_context shows what was said about it.", data)
    below = "Taken from the words themselves: read around one with get_session before you rely on it."
    if page.following >= 0:
        below += f' There are later ones: call again with cursor "{page.following}".'
    above = f"Decided about {_quoted(topic)}, the oldest first:"
    if recall.by_meaning:
        above = f"No message contains {_quoted(topic)}. {NEAREST}, the oldest first:"
    return Answer(fenced(above, page.texts, below), data)


def list_sessions(world: World, given: calls.ListSessions) -> Answer:
    """What there is, the last active first."""
    status = given.status.lower()
    if status and status not in STATUSES:
        raise UsageError(f"unknown status {ascii(status)[:60]}", hint=f"one of {', '.join(STATUSES)}")
    kind, tool = given.type or None, given.tool or None
    rows = world.listing.rows(kind=kind, status=status or None, tool=tool, asking=False)
    rows.sort(key=_key, reverse=True)
    total = len(rows)
    after = _after(given.cursor)
    if after is not None:
        rows = [row for row in rows if _key(row) < after]
    limit = given.limit
    page = fit([without_secrets(row) for row in rows[:limit]], 0, session_entry, world.budget, briefer)
    shown = len(page.texts)
    world.shown = [(row.root, row.id) for row in rows[:shown]]
    cursor = _cursor(rows[shown - 1]) if 0 < shown < len(rows) else None
    data = {"sessions": page.rows, "next_cursor": cursor, "total": total}
    if not shown:
        return Answer("No session matches." if not after else "There are no more sessions.", data)
    below = f'More: call again with cursor "{cursor}".' if cursor else ""
    return Answer(fenced(f"{total} sessions, the last active first; {shown} of them here:", page.texts, below), data)


def _key(row: Row) -> tuple[str, str, str]:
    return row.last_active, row.id, row.root


def _cursor(row: Row) -> str:
    """The last session of a page, by what orders them: what comes or goes in between moves nothing."""
    return urlsafe_b64encode(msgspec.json.encode(_key(row))).decode("ascii")


def _after(cursor: str) -> tuple[str, str, str] | None:
    if not cursor:
        return None
    try:
        return msgspec.json.decode(urlsafe_b64decode(cursor.encode("ascii")), type=tuple[str, str, str])
    except ValueError as error:  # base64, ASCII and JSON all say so
        raise UsageError(
            f"{ascii(cursor)[:60]} is no cursor of this tool", hint="use the next_cursor of an answer"
        ) from error


def _quoted(text: str) -> str:
    text = flat(text[:400])
    return f'"{text if len(text) <= 120 else text[:119] + "…"}"'


TOOLS: dict[str, Callable[[World, Any], Answer]] = {
    "search_workspace": search_workspace,
    "get_context": get_context,
    "get_decision_history": get_decision_history,
    "list_sessions": list_sessions,
    "get_session": get_session,
    "search_sessions": search_sessions,
    "save_session": save_session,
    "resume_session": resume_session,
}
