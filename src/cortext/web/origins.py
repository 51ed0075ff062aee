"""Files: which conversation a line, a file or a commit comes from, and which ones used the file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from cortext.errors import NotFound, UsageError
from cortext.model import clock
from cortext.model.query import Query
from cortext.safety import terminal
from cortext.services.library.listing import Row
from cortext.services.origin.history import Commit, line_of, locate, locate_inside
from cortext.services.origin.session_edits import EditSource as Origins
from cortext.services.origin.session_edits import Touch, touched
from cortext.services.origin.why import NOT_KNOWN, Attribution, Why
from cortext.services.projects.repository import is_below, top_of
from cortext.web.home import short_path
from cortext.web.library import PageLibrary
from cortext.web.pages import address, library, page, shown, stored
from cortext.wiring import tools

LONGEST = 1_000  # characters of a path
TOUCHES = 30  # conversations that used a file
PATH = "/why"


def link_to(row: Row, path: str) -> str:
    """Return the address of the page about a file that a conversation changed; empty if its project is unknown."""
    folder = project_of(row)
    if not folder:
        return ""
    inside = os.path.relpath(path, folder) if os.path.isabs(path) and is_below(path, folder) else path
    return f"{PATH}?{urlencode({'project': folder, 'file': inside}, errors='replace')}"


def project_of(row: Row) -> str:
    """Return the folder that the files of a conversation are in; empty if that is unknown."""
    return row.project or (row.root if row.kind == "workspace" else "")


async def why(request: Request) -> Response:
    """Show the form, and what is known about the file, line or commit that it names."""
    services = library(request)
    known = await _folders(services)
    wanted, commit = (request.query_params.get(name, "")[:LONGEST].strip() for name in ("file", "commit"))
    if wanted and commit:
        raise UsageError("name either a file or a commit", hint="leave one of the two fields empty")
    here = top_of(services.folder) or services.folder
    given = request.query_params.get("project", "") or (here if here in known or not known else known[0])
    project = stored(given, (*known, here))[0]
    if project not in (*known, here):
        # Only folders that conversations were held in: what is asked never reaches the rest of the file system.
        raise UsageError(f"unknown project {project[:200]!r}", hint="choose one from the list")
    values: dict[str, Any] = {
        "current": "files",
        "projects": [
            (terminal.line(folder), short_path(folder), folder == project) for folder in dict.fromkeys((*known, here))
        ],
        "file": wanted,
        "revision": commit,
    }
    if wanted:
        values |= await services.in_reader(lambda: _answer(services, project, wanted))
    elif commit:
        values |= await services.in_reader(lambda: _commit_answer(services, project, commit))
    return page(request, "why.html", values)


async def _folders(services: PageLibrary) -> list[str]:
    """Return the folders that conversations were held in, those with the most first."""
    listed = await services.find(Query(limit=1))
    workspaces = [location.root for location in services.stores.locations() if location.kind == "workspace"]
    return list(dict.fromkeys((*(listed.values["project"] if listed is not None else ()), *workspaces)))


def _answer(services: PageLibrary, project: str, wanted: str) -> dict[str, Any]:
    """Return what is known about a file or a line of a project."""
    path, line = line_of(wanted, project)
    stored = _origins(services)
    values: dict[str, Any] = {"path": path, "line": line, "text": "", "commit": "", "origins": [], "touches": []}
    try:
        history, inside = locate_inside(project, path)
        asked = Why(stored, history)
        if line:
            found = asked.line(inside, line)
            origins, values["text"] = [found.origin], shown(found.line.text.strip())
            values["commit"] = _commit(found.line.commit)
        else:
            origins = asked.file(inside).origins
        values["origins"] = [_origin(origin) for origin in origins if origin.row is not None]
        reason = origins[0].why_not if line else "no stored conversation wrote a line of it"
        values["unknown"] = f"{NOT_KNOWN}: {reason}."
    except NotFound as error:  # in no repository, or gone: which conversations used it is still known
        values["unknown"] = f"{shown(error.message)}."
    if is_below(os.path.realpath(os.path.join(project, path)), os.path.realpath(top_of(project) or project)):
        values["touches"] = [_touch(each) for each in touched(stored, os.path.join(project, path))[:TOUCHES]]
    return values


def _commit_answer(services: PageLibrary, project: str, revision: str) -> dict[str, Any]:
    """Return what is known about the lines that a commit added."""
    history, _ = locate(project)
    found = Why(_origins(services), history).commit(revision)
    unknown = f"{NOT_KNOWN}: no stored conversation wrote the lines that it added."
    return {
        "path": shown(found.commit.subject),
        "line": 0,
        "text": "",
        "commit": _commit(found.commit),
        "origins": [_origin(origin) for origin in found.origins],
        "unknown": unknown,
    }


def _origins(services: PageLibrary) -> Origins:
    """Return the edits of all conversations, as of now."""
    search = services.stores.search()
    search.refresh(meaning=False)
    return Origins(search.listing, lambda: search)


def _commit(commit: Commit | None) -> str:
    if commit is None:
        return "not committed yet"
    return shown(f"commit {commit.sha[:10]}, {clock.day(commit.time)}: {commit.subject} ({commit.author})")


def _session(row: Row, seq: int) -> dict[str, Any]:
    return {"link": _at(row, seq), "title": shown(row.name), "tool": tools.title(row.tool), "row": row}


def _at(row: Row, seq: int) -> str:
    return f"{address(row, at=seq)}#m{seq}" if seq >= 0 else address(row)


def _origin(origin: Attribution) -> dict[str, Any]:
    row, reason = origin.row, origin.reason
    assert row is not None
    quotes = list(_quotes(origin)) if reason is not None else []
    session = _session(row, reason.seq if reason is not None else -1)
    return {**session, "sure": origin.evidence(), "quotes": quotes, "resume": address(row, "continue")}


def _quotes(origin: Attribution) -> Iterator[tuple[str, str, str]]:
    """Yield what led to an edit: a label, the address of the message (empty: none of its own), and the words."""
    row, reason = origin.row, origin.reason
    assert row is not None and reason is not None
    for label, seq, text in (
        ("You asked", reason.ask_seq, reason.ask),
        ("in answer to", -1, reason.answers),
        ("Decided", reason.decision_seq, reason.decision),
        ("The agent said", -1, reason.said if reason.said != reason.decision else ""),
        ("Edit", reason.seq, f"{reason.call} {reason.path}, {clock.short(reason.timestamp)}".strip()),
    ):
        if text:
            yield label, _at(row, seq) if seq >= 0 else "", text


def _touch(touch: Touch) -> dict[str, Any]:
    doubt = "" if touch.is_sure else "perhaps a file of another project"
    return {
        **_session(touch.row, touch.seq),
        "did": " and ".join(touch.did),
        "ago": clock.ago(touch.timestamp),
        "doubt": doubt,
    }
