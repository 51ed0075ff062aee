"""Sessions, passages and decisions as text for a model, and as data: each, and as many as fit into an answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from msgspec.structs import replace

from cortext.faces.mcp.pages import FRAME, Json, cost
from cortext.model import clock
from cortext.model.wording import amount, clip, times
from cortext.services.library.json_views import session_json
from cortext.services.library.listing import Row
from cortext.services.library.recall import Passage, SessionDecision, SessionPassages

# Fields of a session that are of no use to a model.
OMITTED = ("path", "project", "repository", "token_count", "damage")


def session_data(row: Row) -> Json:
    """Return a session as data, without empty fields."""
    fields = {**session_json(row), "type": row.shown_type}
    known = {name: value for name, value in fields.items() if name not in OMITTED}
    return {name: value for name, value in known.items() if value is not False and value not in ("", [])}


def session_line(row: Row) -> str:
    """Return a session on one line, its id first, because the other tools take it."""
    facts = [row.id, on_one_line(row.title), row.type or row.kind, row.tool or row.agent, row.status, row.place]
    facts += [*(f"#{tag}" for tag in row.tag_names), "starred" if row.starred else ""]
    facts += [amount(row.message_count, "message"), f"last active {clock.minute(row.last_active)}"]
    return " · ".join(fact for fact in facts if fact)


def session_entry(row: Row) -> tuple[str, Json]:
    """Return a session of a list, as text and as data."""
    summary = f"\n   {on_one_line(row.summary)}" if row.summary else ""
    return f"- {session_line(row)}{summary}", session_data(row)


def found_entry(found: SessionPassages) -> tuple[str, Json]:
    """Return a session with its matching messages, as text and as data."""
    passages = [_passage(passage) for passage in found.passages]
    lines = _lines(session_line(found.session), found)
    return "\n".join(lines), {"session": session_data(found.session), "passages": passages}


def evidence_entry(found: SessionPassages) -> tuple[str, Json]:
    """Return the same with no more of the session than what cites it: most of the room is for the passages.

    A passage of the same day as the one before it has no date, as text and as data.
    """
    row = found.session
    name = " · ".join(fact for fact in (row.id, on_one_line(row.title), row.tool) if fact)
    session = {"id": row.id, "title": row.title, "tool": row.tool, "summary": row.summary}
    days = ["", *(clock.day(passage.timestamp) for passage in found.passages)]
    shown = [
        replace(passage, timestamp="" if clock.day(passage.timestamp) == day else passage.timestamp[:16])
        for day, passage in zip(days, found.passages, strict=False)
    ]
    data: Json = {
        "session": {field: value for field, value in session.items() if value},
        "passages": [_passage(passage) for passage in shown],
    }
    return "\n".join(_lines(name, replace(found, passages=shown))), data


def _lines(name: str, found: SessionPassages) -> list[str]:
    lines = [f"# {name}"]
    if found.session.summary:
        lines.append(f"summary: {on_one_line(found.session.summary)}")
    for passage in found.passages:
        if passage.before:
            lines.append(f"  before: {on_one_line(passage.before)}")
        who = f"{passage.role}, {clock.minute(passage.timestamp)}" if passage.timestamp else passage.role
        lines.append(f"  [{passage.seq}] {who}: {on_one_line(passage.text)}")
        if passage.after:
            lines.append(f"  after: {on_one_line(passage.after)}")
    return lines


def _passage(passage: Passage) -> Json:
    fields: Json = {name: getattr(passage, name) for name in Passage.__struct_fields__}
    return {name: value for name, value in fields.items() if value != ""}


def without_summary(row: Row) -> Row | None:
    """Return a session without its summary; None if it has none."""
    return row._replace(summary="") if row.summary else None


def shortened(found: SessionPassages) -> SessionPassages | None:
    """Return it with fewer passages, else without the summary, else with shorter passages; None if nothing is left."""
    session = without_summary(found.session)
    if len(found.passages) > 1:
        return SessionPassages(session=found.session, passages=found.passages[:-1])
    if session is not None:
        return SessionPassages(session=session, passages=found.passages)
    longest = max((len(text) for one in found.passages for text in (one.text, one.before, one.after)), default=0)
    if longest < 40:
        return None
    cut = [
        replace(one, text=clip(one.text, longest // 2), before=clip(one.before, longest // 4),
                after=clip(one.after, longest // 4))
        for one in found.passages
    ]  # fmt: skip
    return SessionPassages(session=found.session, passages=cut)


def decision_entry(settled: SessionDecision) -> tuple[str, Json]:
    """Return a decision with its date and its session, as text and as data."""
    row, decision = settled.session, settled.decision
    where = f"{row.id}, message {decision.seq}"
    name = f"{on_one_line(row.title)} ({where})" if row.title else where
    session, _, seq = decision.reversed_by.rpartition("#")
    notes = [
        f"rejected: {on_one_line(decision.rejected)}" if decision.rejected else "",
        f"reversed in {session} #{seq}" if session else "",
        f"said {times(decision.times)}" if decision.times > 1 else "",
    ]
    said = (
        f"{on_one_line(decision.text)} ({'; '.join(filter(None, notes))})" if any(notes) else on_one_line(decision.text)
    )
    line = f"- {clock.day(decision.timestamp)} · {decision.by}: {said}\n  in {name}"
    return line, {
        "date": decision.timestamp,
        "text": decision.text,
        "role": decision.role,
        "by": decision.by,
        "rejected": decision.rejected,
        "reversed_by": decision.reversed_by,
        "times": decision.times,
        "session": row.id,
        "title": row.title,
        "seq": decision.seq,
    }


def on_one_line(text: str) -> str:
    """Return a text on one line."""
    return " ".join(text.split())


DATA_FRAME = 60  # tokens of the note and the cursor; the data has no heading, fences or hint


class Filled(NamedTuple):
    """The sessions that the best passages are from, the session of the best one first; and how many passages."""

    found: list[SessionPassages]
    passages: int
    is_full: bool  # whether the next passage did not fit


Key = tuple[str, str]  # the store and the id of a session
Draw = Callable[[SessionPassages], tuple[str, Json]]


def filled(ranked: Iterable[tuple[Row, Passage]], budget: int, draw: Draw = evidence_entry) -> Filled:
    """Return the best passages that fit into this many tokens, at least one; `ranked` is read only as far as needed.

    Within a session they are in the order in which they were said. If there is room left, passages get their
    neighbours, the best passage first, and sessions their summaries. `draw` is how a session will be shown.
    """

    sessions: dict[Key, SessionPassages] = {}
    costs: dict[Key, tuple[int, int]] = {}  # as text and as data
    used = [FRAME, DATA_FRAME]

    def take(key: Key, richer: SessionPassages, *, anyway: bool = False) -> bool:
        """Show a session like this if that fits; return whether it does."""
        new = cost(richer, draw)
        total = [now - less + more for now, less, more in zip(used, costs.get(key, (0, 0)), new, strict=True)]
        if max(total) > budget and not anyway:
            return False
        used[:], costs[key], sessions[key] = total, new, richer
        return True

    order: list[tuple[Key, Passage]] = []
    summaries: dict[Key, Row] = {}
    is_full = False
    for row, passage in ranked:
        key = (row.root, row.id)
        summaries[key] = row
        bare = replace(passage, before="", after="")
        others = sessions[key].passages if key in sessions else []
        in_order = sorted([*others, bare], key=lambda one: one.seq)
        after = SessionPassages(session=without_summary(row) or row, passages=in_order)
        is_taken = take(key, after)
        while not order and not is_taken:
            smaller = shortened(after)
            after = smaller or after
            is_taken = take(key, after, anyway=smaller is None)
        if not is_taken:
            is_full = True
            break
        order.append((key, passage))
    for key, passage in order:
        if not take(key, _with_neighbours(sessions[key], passage)):
            break
    for key, one in list(sessions.items()):
        take(key, replace(one, session=summaries[key]))
    return Filled(list(sessions.values()), len(order), is_full)


def _with_neighbours(one: SessionPassages, passage: Passage) -> SessionPassages:
    """Return the session with the neighbours of one of its passages, unless these are shown already."""
    shown = {
        seq
        for other in one.passages
        for seq, text in ((other.seq - 1, other.before), (other.seq, other.text), (other.seq + 1, other.after))
        if text
    }
    before = "" if passage.seq - 1 in shown else passage.before
    after = "" if passage.seq + 1 in shown else passage.after
    return replace(
        one,
        passages=[
            replace(other, before=before, after=after) if other.seq == passage.seq else other for other in one.passages
        ],
    )
