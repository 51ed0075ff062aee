"""A conversation: a window of its messages, a timeline, its branches, and pieces that the script adds while reading."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from cortext.errors import CortextError, NotFound, UsageError
from cortext.model import clock
from cortext.model.message import Message
from cortext.model.order import Order, order_of
from cortext.model.session import details_of, first_turn_of
from cortext.model.wording import cut
from cortext.services.cost.report import row_cost
from cortext.services.library.branches import Fork, family
from cortext.services.library.export import json_chunks, markdown_chunks, mask_lazily
from cortext.services.library.listing import Row, placed
from cortext.services.library.stores import damage_note, problem_of
from cortext.services.library.windows import Ask, Window, Windows
from cortext.services.text.message_masking import mask_messages, mask_session
from cortext.services.text.threads import StoredThread
from cortext.web.home import short_path
from cortext.web.html import message
from cortext.web.html.document import document_chunks
from cortext.web.library import PageLibrary
from cortext.web.live import mark_of, state_of
from cortext.web.origins import link_to
from cortext.web.pages import address, library, number, page, shown
from cortext.wiring import tools

SHOWN = 40  # messages of the first window and of each that is added
MOST = 200  # messages of one request
FINDS = 50  # results of the search in a conversation
COUNTED = 500  # messages that are read for the cost, unless a report has read them before
ASKS = 40  # entries of the timeline
CHARACTERS = 64  # of each
DOWNLOADS = {"markdown": ("text/markdown", "md"), "json": ("application/json", "json"), "html": ("text/html", "html")}


class _Addresses:
    """The links of a message on this server."""

    def __init__(self, row: Row, branch: int) -> None:
        self._row, self._branch = row, branch if branch >= 0 else ""

    def message(self, seq: int) -> str:
        return address(self._row, at=seq, branch=self._branch) + f"#m{seq}"

    def reveal(self, seq: int) -> str:
        return address(self._row, at=seq, branch=self._branch, reveal=seq) + f"#m{seq}"

    def full(self, seq: int) -> str:
        return address(self._row, at=seq, branch=self._branch, full=seq) + f"#m{seq}"

    def file(self, path: str) -> str:
        return link_to(self._row, path)


async def _row(request: Request) -> Row:
    return await library(request).row(request.path_params["store"], request.path_params["session"])


def render(
    row: Row,
    windows: Windows,
    shown_messages: list[Message],
    branch: int,
    *,
    reveal: Collection[int] = (),
    full: Collection[int] = (),
) -> Markup:
    """Return messages as HTML, without secrets except in those that are revealed."""
    masked, _ = mask_messages(shown_messages)
    reveal = message.with_results(shown_messages, reveal)
    clear = [old if old.seq in reveal else new for old, new in zip(shown_messages, masked, strict=True)]
    positions = {message.seq: windows.position(message.seq) for message in clear}
    return message.render(clear, _Addresses(row, branch), full=full, positions=positions)


async def conversation(request: Request) -> Response:
    """Show the page of a conversation, at its beginning, at a message, or at its end."""
    row = await _row(request)
    services = library(request)
    at, branch = number(request, "at"), number(request, "branch")
    wanted = " ".join(request.query_params.get("find", "")[:200].split())
    reveal, full = {number(request, "reveal")}, {number(request, "full")}

    def made() -> dict[str, Any]:
        windows = services.windows(row, branch)
        if branch >= 0 and windows.leaf != branch:
            raise NotFound(f"{row.id} has no branch that ends in message {branch}", hint="open the conversation itself")
        start = _start(windows, at, number(request, "from"))
        window = windows.window(start, SHOWN)
        conversation = services.found(row)
        side = _side(services, row, windows, branch)
        return {
            **_frame(services, row, branch),
            "state": mark_of(state_of(row)),
            "cost": _cost(services, row),
            "session": (session := mask_session(conversation.session)),
            "details": details_of(session.extra).labelled(),
            "messages": render(row, windows, window.messages, branch, reveal=reveal, full=full),
            "window": window,
            "find": wanted,
            "finds": [_entry(row, branch, each, wanted) for each in windows.search(wanted, FINDS)] if wanted else [],
            "note": request.query_params.get("note", "")[:500],
            **side,
            "parent": _parent(row, side["forks"]),
            "order": _order(conversation.session.extra),
            "first_turn": _first_turn(conversation.session.extra),
            "problem": shown(problem.text) if (problem := problem_of(conversation)) is not None else "",
            "last": window.messages[-1].seq if window.messages else -1,
            "at": at,
            **_steps(row, branch, window),
        }

    return page(request, "conversation.html", await services.in_reader(made))


async def side(request: Request) -> Response:
    """Send the branches and the timeline again, for the script, when the conversation has grown."""
    row = await _row(request)
    services = library(request)
    branch = number(request, "branch")

    def made() -> dict[str, Any]:
        return _side(services, row, services.windows(row, branch), branch)

    return page(request, "side.html", await services.in_reader(made))


def _side(services: PageLibrary, row: Row, windows: Windows, branch: int) -> dict[str, Any]:
    """Return what the side of the page shows."""
    asks = [_entry(row, branch, ask) for ask in windows.asks(ASKS)]
    return {"asks": asks, "branches": _branches(row, windows, branch), "forks": _forks(services, row)}


def _cost(services: PageLibrary, row: Row) -> str:
    """Return what the conversation cost; empty if that is not known, or would take long to find out."""
    try:
        cost = row_cost(services.reading(row.root), row, services.stores.prices(), most=COUNTED)
    except CortextError:  # prices that cannot be read: the page of costs says why
        return ""
    return cost.text if cost is not None else ""


def _start(windows: Windows, at: int, start: int) -> int:
    """Return the position of the first message to show: some before the wanted one, for context."""
    if start >= 0:
        return start
    return max(0, windows.position(at) - SHOWN // 4) if at >= 0 else 0


def _frame(services: PageLibrary, row: Row, branch: int) -> dict[str, Any]:
    """Return what the head of the page shows."""
    return {
        "row": row,
        "title": shown(row.name),
        "tool": tools.title(row.tool),
        "place": short_path(row.project) if row.project else services.label(row.root),
        "left": shown(placed([row])[0].place),
        "here": address(row),
        "branch": branch,
        "ago": clock.ago(row.last_active),
    }


def _steps(row: Row, branch: int, window: Window) -> dict[str, str]:
    """Return the addresses of the windows before and after, for readers without a script."""
    name = branch if branch >= 0 else ""
    before = {"from": max(0, window.start - SHOWN), "branch": name}
    after = {"from": window.end, "branch": name}
    return {
        "earlier": address(row, **before) if window.start > 0 else "",
        "later": address(row, **after) if window.end < window.total else "",
    }


def _entry(row: Row, branch: int, ask: Ask, find: str = "") -> dict[str, str | int]:
    """Return a message as the side of the page lists it; the link to one that was found keeps what was looked for."""
    link = address(row, at=ask.seq, branch=branch if branch >= 0 else "", find=find) + f"#m{ask.seq}"
    return {
        "seq": ask.seq,
        "text": cut(ask.text, CHARACTERS) or "(no text)",
        "link": link,
        "time": clock.short(ask.timestamp),
    }


def _branches(row: Row, windows: Windows, branch: int) -> list[dict[str, Any]]:
    """Return the branches as a tree: each with those that leave it; empty if there is only one."""
    found = windows.branches
    if len(found) < 2:
        return []
    newest = found[-1].leaf
    joined = row.branch_count > 1  # without a branch in its address, the page shows all that go on
    current = branch if branch >= 0 or joined else newest
    entries: dict[int, dict[str, Any]] = {
        each.leaf: {
            "link": address(row, branch=each.leaf if joined or each.leaf != newest else "", at=max(0, each.after)),
            "current": each.leaf == current,
            "newest": each.leaf == newest,
            "after": each.after,
            "messages": each.messages,
            "time": clock.short(each.timestamp),
            "inside": [],
        }
        for each in found
    }
    tree: list[dict[str, Any]] = []
    for each in found:
        siblings = entries[each.parent]["inside"] if each.parent in entries else tree
        siblings.append(entries[each.leaf])
    return tree


def _order(extra: dict[str, Any]) -> Order:
    """Return the tags, star and notes; a note may hold what was not recognised as a secret when it was written."""
    found = order_of(extra)
    return found._replace(notes=tuple(note._replace(text=shown(note.text)) for note in found.notes))


def _first_turn(extra: dict[str, Any]) -> str:
    """Return whether the tool that it was last resumed in holds all of it; empty if that is not known."""
    result = first_turn_of(extra)
    return result.sentence(tools.title(result.tool)) if result is not None else ""


def _forks(services: PageLibrary, row: Row) -> list[dict[str, Any]]:
    """Return the tree of forks that the conversation is in; empty if it is neither a fork nor has any."""

    def entry(fork: Fork) -> dict[str, Any]:
        return {
            "link": address(fork.row),
            "current": fork.row.id == row.id,
            "name": shown(fork.row.name),
            "messages": fork.row.message_count,
            "time": clock.short(fork.row.created_at),
            "inside": [entry(each) for each in fork.forks],
        }

    top = family(services.reading(row.root), row)
    return [entry(top)] if top is not None else []


def _parent(row: Row, forks: list[dict[str, Any]]) -> tuple[str, str]:
    """Return the id of the conversation that this one was forked from, and its address if it is still there."""
    is_there = bool(forks) and not forks[0]["current"]
    return shown(row.parent), address(row._replace(id=row.parent)) if is_there else ""


async def pieces(request: Request) -> Response:
    """Send the messages from a position on, for the script that loads them while a person scrolls."""
    row = await _row(request)
    services = library(request)
    branch, start = number(request, "branch"), number(request, "from", 0)
    count = min(number(request, "count", SHOWN), MOST)
    last = number(request, "last")  # the last message that the page shows

    def made() -> tuple[Window, Markup, bool]:
        windows = services.windows(row, branch)
        window = windows.window(start, count)
        return window, render(row, windows, window.messages, branch), last < 0 or windows.has(last)

    window, html, has_last = await services.in_reader(made)
    headers = {"X-Start": str(window.start), "X-End": str(window.end), "X-Total": str(window.total)}
    if not has_last:
        headers["X-Forked"] = "1"
    return Response(html, media_type="text/html", headers=headers)


async def own(request: Request) -> Response:
    """Send the number of the user's message after or before another, for the keys that lead there; empty if none."""
    row = await _row(request)
    services = library(request)
    branch, after, before = (number(request, name) for name in ("branch", "after", "before"))

    def found() -> int:
        return services.windows(row, branch).own(max(after, before), before=before >= 0)

    seq = await services.in_reader(found)
    return PlainTextResponse(str(seq) if seq >= 0 else "")


async def one(request: Request) -> Response:
    """Send one message again: revealed, in full, or as markdown to copy."""
    row = await _row(request)
    services = library(request)
    seq, branch = int(request.path_params["seq"]), number(request, "branch")
    how = request.query_params.get("as", "")
    if how not in ("", "revealed", "full", "markdown"):
        raise UsageError(f"unknown form {how[:40]!r}", hint="follow a link of the page")

    def made() -> str:
        windows = services.windows(row, branch)
        window = windows.window(windows.position(seq), 1)
        found = [message for message in window.messages if message.seq >= seq] or window.messages
        if not found or found[0].seq != seq:
            raise NotFound(f"{row.id} has no message {seq}", hint="open the conversation itself")
        if how == "markdown":
            wanted = message.with_results(found, {seq})
            masked, _ = mask_messages([message for message in found if message.seq in wanted])
            text = "".join(markdown_chunks(services.found(row).session, masked))
            return text.partition("\n## ")[2].partition("\n")[2].strip() + "\n"
        revealed = {seq} if how == "revealed" else ()
        complete = {seq} if how in ("full", "revealed") else ()
        return str(render(row, windows, found, branch, reveal=revealed, full=complete))

    text = await services.in_reader(made)
    if how == "markdown":
        return PlainTextResponse(text)
    return Response(text, media_type="text/html")


async def download(request: Request) -> Response:
    """Send the conversation as a document, without secrets, as `cortext export` writes it."""
    row = await _row(request)
    kind = request.query_params.get("format", "markdown")
    if kind not in DOWNLOADS:
        raise UsageError(f"unknown format {kind[:40]!r}", hint=f"use one of {', '.join(DOWNLOADS)}")
    services = library(request)
    media_type, suffix = DOWNLOADS[kind]

    def made() -> Any:
        conversation = services.found(row)
        damage_note(conversation)  # raises if there is nothing to send
        thread = StoredThread(conversation.store, conversation.session.id, whole=True)
        clean = mask_lazily(thread, Counter())
        if kind == "html":
            return document_chunks(mask_session(conversation.session), clean)
        return json_chunks(conversation, clean) if kind == "json" else markdown_chunks(conversation.session, clean)

    chunks = await services.in_reader(made)
    headers = {"Content-Disposition": f'attachment; filename="{row.id}.{suffix}"'}
    return StreamingResponse(chunks, media_type=f"{media_type}; charset=utf-8", headers=headers)
