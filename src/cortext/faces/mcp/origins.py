"""The tools about files: which conversation a line or a commit comes from, and which ones used a file."""

from __future__ import annotations

import os

from cortext.errors import UsageError
from cortext.faces.mcp import calls
from cortext.faces.mcp.context import Context
from cortext.faces.mcp.drawing import on_one_line, session_data, session_line
from cortext.faces.mcp.pages import Json, ToolAnswer, cursor_at, fenced, fit, index_of
from cortext.model import clock
from cortext.services.library.recall import without_secrets
from cortext.services.origin.history import GitHistory, commit_json, locate_inside
from cortext.services.origin.session_edits import EditSource, Touch, touch_json, touched
from cortext.services.origin.why import NOT_KNOWN, Attribution, Why, origin_json

READ_ON = "To read the messages around one: get_session with its session's id and start = the number in [ ]."


def why_line(context: Context, given: calls.WhyLine) -> ToolAnswer:
    """Return the conversation behind a line, a file or a commit."""
    if bool(given.file) == bool(given.commit):
        raise UsageError("give either a file or a commit", hint="provide 'file' (and 'line'), or 'commit'")
    history, path = _inside(context, given.file)
    why = Why(_library(context), history)
    data: Json = {"commit": None, "text": "", "why_not": ""}
    if given.commit:
        blame = why.commit(given.commit)
        origins, what = blame.origins, f"commit {blame.commit.sha[:10]}"
        data["commit"] = commit_json(blame.commit)
    elif given.line:
        line = why.line(path, given.line)
        origins, what = [line.origin] if line.origin.row is not None else [], f"{path}:{given.line}"
        data |= {"commit": commit_json(line.line.commit), "text": line.line.text, "why_not": line.origin.why_not}
    else:
        origins, what = why.file(path).origins, path
    page = fit(origins, 0, _origin_entry, context.budget)
    data["origins"] = page.rows
    if not page.texts:
        reason = f": {data['why_not']}" if data["why_not"] else ""
        return ToolAnswer(f"{on_one_line(what)}: {NOT_KNOWN.lower()}{reason}.", data)
    return ToolAnswer(fenced(f"{on_one_line(what)} comes from:", page.texts, READ_ON), data)


def touched_file(context: Context, given: calls.TouchedFile) -> ToolAnswer:
    """Return the conversations that used a file."""
    history, path = _inside(context, given.file)
    touches = touched(_library(context), os.path.join(history.top, path))
    touches = [touch for touch in touches if touch.changed or not given.changed]
    page = fit(touches, index_of(given.cursor), _touch_entry, context.budget)
    data = {"results": page.rows, "next_cursor": cursor_at(page.next_index)}
    if not page.texts:
        return ToolAnswer(f"No stored conversation touched {on_one_line(path)}.", data)
    below = READ_ON
    if page.next_index >= 0:
        below += f' There are more: call again with cursor "{page.next_index}".'
    return ToolAnswer(
        fenced(f"Conversations that touched {on_one_line(path)}, the latest first:", page.texts, below), data
    )


def _library(context: Context) -> EditSource:
    return EditSource(context.listing, context.search)


def _inside(context: Context, file: str) -> tuple[GitHistory, str]:
    """Return the history and the path of a file. A model may ask only about the project that the server runs in."""
    return locate_inside(context.stores.folder, file)


def _origin_entry(origin: Attribution) -> tuple[str, Json]:
    assert origin.row is not None
    row, turn = without_secrets(origin.row), origin.reason
    lines = [
        f"# {session_line(row)}",
        f"  {origin.evidence()}",
    ]
    if turn is not None:
        quotations = (
            ("the user asked", turn.ask_seq, turn.ask),
            ("in answer to", -1, turn.answers),
            ("decided", turn.decision_seq, turn.decision),
            ("the agent said", -1, turn.said),
            ("edit", turn.seq, f"{turn.call} {turn.path}, {clock.minute(turn.timestamp)}"),
        )
        lines += [f"  {f'[{seq}] ' if seq >= 0 else ''}{label}: {text}" for label, seq, text in quotations if text]
    whole = origin_json(origin)
    names = ("confidence", "named_by_commit", "matched_lines", "compared_lines", "turn")
    return "\n".join(lines), {"session": session_data(row), **{name: whole[name] for name in names}}


def _touch_entry(touch: Touch) -> tuple[str, Json]:
    row = without_secrets(touch.row)
    doubt = "" if touch.is_sure else "; perhaps a file of another project"
    last = f"last in [{touch.seq}] {clock.minute(touch.timestamp)}"
    return f"# {session_line(row)}\n  {', '.join([*touch.did, last])}{doubt}", {
        **touch_json(touch),
        "session": session_data(row),
    }
