"""The ten tools: each takes a decoded call and answers within the token budget."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from itertools import islice
from typing import Any

import msgspec

from cortext.errors import NotFound, UsageError
from cortext.faces.mcp import calls
from cortext.faces.mcp.context import Context
from cortext.faces.mcp.drawing import (
    Draw,
    Filled,
    decision_entry,
    evidence_entry,
    filled,
    found_entry,
    on_one_line,
    session_entry,
    without_summary,
)
from cortext.faces.mcp.origins import touched_file, why_line
from cortext.faces.mcp.pages import Page, ToolAnswer, cursor_at, fenced, fit, index_of, safe
from cortext.faces.mcp.sessions import get_session, resume_session, save_session
from cortext.model import tokens
from cortext.model.query import ARCHIVED, FILTERS, Query, check_choice
from cortext.model.wording import quoted
from cortext.services.library.listing import Row, placed
from cortext.services.library.recall import without_secrets
from cortext.services.library.search import lacking
from cortext.services.library.sources import Answer

NEAREST = "These are only similar in meaning, and may be about something else"
QUOTED = 30  # tokens of a quoted query that the frame has room for


def call(context: Context, name: str, arguments: dict[str, Any]) -> ToolAnswer:
    """Answer one call. Raises CortextError if it cannot be answered."""
    if name not in TOOLS:
        raise UsageError(f"unknown tool {ascii(name)[:60]}", hint=f"use one of {', '.join(TOOLS)}")
    spec = calls.SPECS[name]
    given = calls.decode(calls.arguments_of(spec), arguments)
    context.refresh(only_reads=spec.read_only)
    answer = TOOLS[name](context, given)
    incomplete = context.incomplete(answer.damaged)
    if note := " ".join(filter(None, (incomplete, context.problem))):
        data = {**answer.data, "incomplete": note} | ({"missing": context.missing} if context.missing else {})
        answer = answer._replace(text=f"{note}\n\n{answer.text}", data=data)
    if warnings := context.stores.settings.broken_warnings():
        text = "\n".join(f"Note: {line}" for line in warnings)
        answer = answer._replace(text=f"{text}\n\n{answer.text}", data={**answer.data, "warnings": warnings})
    return answer.made_safe()


def search_workspace(context: Context, given: calls.SearchWorkspace) -> ToolAnswer:
    """Search the conversations of this workspace."""
    query = given.query
    if not context.stores.workspace:
        raise NotFound(
            "this server was not started inside a workspace", hint="use search_sessions, which searches every store"
        )
    filters = {
        **calls.filters_of(given),
        **calls.date_filters(given.date_range),
        "workspace": context.stores.workspace,
    }
    start, limit = index_of(given.cursor), given.limit
    # One more than wanted, to know whether there is a next page.
    asked = Query(query, filters, limit=start + limit + 1, per_session=calls.PER_SESSION, leave_out=given.leave_out)
    return _sessions(context, asked, start, limit, "in this workspace")


def search_sessions(context: Context, given: calls.SearchSessions) -> ToolAnswer:
    """Search every session."""
    start, limit = index_of(given.cursor), given.top_k
    asked = Query(
        given.query,
        calls.filters_of(given),
        limit=start + limit + 1,
        per_session=given.messages_per_session,
        leave_out=given.leave_out,
    )
    return _sessions(context, asked, start, limit, "in all sessions")


def get_context(context: Context, given: calls.GetContext) -> ToolAnswer:
    """Return the best passages about a topic, as many as fit."""
    topic = given.topic
    start, limit = index_of(given.cursor), given.max_results
    # One more than wanted, to know whether there is a next page.
    asked = Query(topic, calls.filters_of(given), limit=start + limit + 1, leave_out=given.leave_out)
    answer, ranked = context.recall.evidence(asked, start=start)
    chosen = filled(islice(ranked, limit), _room(context, topic))
    has_more = chosen.is_full or next(ranked, None) is not None
    next_index = start + chosen.passages if has_more else -1
    return _answer(answer, _drawn(context, chosen, evidence_entry, next_index), start, topic, "as background")


def _room(context: Context, query: str) -> int:
    """Return the budget of an answer that quotes the query, which escaping may make long."""
    return context.budget - max(0, tokens.estimate(safe(_quoted(query))) - QUOTED)


def _sessions(context: Context, query: Query, start: int, limit: int, where: str) -> ToolAnswer:
    """Return the sessions that match, with as many of their best passages as fit."""
    recall = context.recall
    answer = recall.sessions(query)
    page = answer.hits[start : start + limit]
    chosen = filled(recall.passages(page), _room(context, query.text), found_entry)
    shown = len(chosen.found)
    next_index = start + shown if shown < len(page) or len(answer.hits) > start + limit else -1
    return _answer(answer, _drawn(context, chosen, found_entry, next_index), start, query.text, where)


def _drawn(context: Context, chosen: Filled, draw: Draw, next_index: int) -> Page:
    context.cited |= {one.session.id: one.session.root for one in reversed(chosen.found)}
    drawn = [draw(one) for one in chosen.found]
    return Page([text for text, _ in drawn], [row for _, row in drawn], next_index)


def _answer(answer: Answer, page: Page, start: int, query: str, where: str) -> ToolAnswer:
    next_index = page.next_index
    data = {"results": page.rows, "next_cursor": cursor_at(next_index), "absent": list(answer.absent)}
    if not page.texts:
        text = f"No {'more ' if start else ''}results {where} about {_quoted(query)}. {lacking(answer, query)}".strip()
        return ToolAnswer(text, data, damaged=answer.damaged)
    below = "To read the messages around one: get_session with its session's id and start = the number in [ ]."
    if next_index >= 0:
        below += f' There are more results: call again with cursor "{next_index}".'
    above = f"Found {where} about {_quoted(query)}, the best session first, its messages in order:"
    if answer.is_only_near:
        above = f"{NEAREST} ({where}, nearest first):"
    above = f"{lacking(answer, query)} {above}".strip()
    return ToolAnswer(fenced(above, page.texts, below), data, damaged=answer.damaged)


def get_decision_history(context: Context, given: calls.GetDecisionHistory) -> ToolAnswer:
    """Return the decisions about a topic, oldest first."""
    topic = given.topic
    start = index_of(given.cursor)
    answer, settled = context.recall.decisions(Query(topic, calls.filters_of(given), leave_out=given.leave_out))
    page = fit(settled, start, decision_entry, _room(context, topic))
    data = {"decisions": page.rows, "next_cursor": cursor_at(page.next_index), "absent": list(answer.absent)}
    if not page.texts:
        text = f"No decision was found about {_quoted(topic)}. get_context shows what was said about it."
        return ToolAnswer(text, data, damaged=answer.damaged)
    below = "Extracted from the text: read the messages around one with get_session before you rely on it."
    if page.next_index >= 0:
        below += f' There are later ones: call again with cursor "{page.next_index}".'
    above = f"Decisions about {_quoted(topic)}, oldest first:"
    if answer.is_only_near:
        above = f"{NEAREST}; oldest first:"
    above = f"{lacking(answer, topic)} {above}".strip()
    return ToolAnswer(fenced(above, page.texts, below), data, damaged=answer.damaged)


def list_sessions(context: Context, given: calls.ListSessions) -> ToolAnswer:
    """List sessions, most recently active first."""
    filters = calls.filters_of(given)
    for name, value in filters.items():
        if FILTERS[name].choices:
            filters[name] = value.lower()
            check_choice(name, value.lower())
    words = filters.get("is", "")
    filters["is"] = words if ARCHIVED in words.split(",") else f"{words},unarchived"
    rows = context.listing.rows(Query(filters=filters, own_commands=False))
    rows.sort(key=_key, reverse=True)
    total = len(rows)
    after = _after(given.cursor)
    if after is not None:
        rows = [row for row in rows if _key(row) < after]
    limit = given.limit
    page = fit(
        [without_secrets(row) for row in placed(rows[:limit])], 0, session_entry, context.budget, without_summary
    )
    shown = len(page.texts)
    context.shown = [(row.root, row.id) for row in rows[:shown]]
    cursor = _cursor(rows[shown - 1]) if 0 < shown < len(rows) else None
    data = {"sessions": page.rows, "next_cursor": cursor, "total": total}
    if not shown:
        return ToolAnswer("No session matches." if not after else "There are no more sessions.", data)
    below = f'More: call again with cursor "{cursor}".' if cursor else ""
    return ToolAnswer(
        fenced(f"{total} sessions, most recently active first; {shown} of them here:", page.texts, below), data
    )


def _key(row: Row) -> tuple[str, str, str]:
    return row.last_active, row.id, row.root


def _cursor(row: Row) -> str:
    """Return a cursor that names the last session of a page by its sort key, so that changes do not shift pages."""
    return urlsafe_b64encode(msgspec.json.encode(_key(row))).decode("ascii")


def _after(cursor: str) -> tuple[str, str, str] | None:
    if not cursor:
        return None
    try:
        return msgspec.json.decode(urlsafe_b64decode(cursor.encode("ascii")), type=tuple[str, str, str])
    except ValueError as error:  # from base64, ASCII or JSON
        raise UsageError(f"invalid cursor {ascii(cursor)[:60]}", hint="use the next_cursor of an answer") from error


def _quoted(text: str) -> str:
    return quoted(on_one_line(text[:400]), 120)


TOOLS: dict[str, Callable[[Context, Any], ToolAnswer]] = {
    "search_workspace": search_workspace,
    "get_context": get_context,
    "get_decision_history": get_decision_history,
    "list_sessions": list_sessions,
    "get_session": get_session,
    "search_sessions": search_sessions,
    "why_line": why_line,
    "touched_file": touched_file,
    "save_session": save_session,
    "resume_session": resume_session,
}
