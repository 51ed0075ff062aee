"""Sessions, passages and decisions as lines for a model, and as data."""

from __future__ import annotations

from msgspec.structs import replace

from cortext.faces.mcp.pages import Json
from cortext.services.library.json_views import session_json
from cortext.services.library.listing import Row
from cortext.services.library.recall import Passage, SessionDecision, SessionPassages
from cortext.services.text.digest import clip

UNSAID = ("path", "token_count", "damage")  # fields of a session that a model has no use for


def session_data(row: Row) -> Json:
    """A session; what is empty is left out."""
    fields = {**session_json(row), "type": row.shown_type}
    return {name: value for name, value in fields.items() if value != "" and name not in UNSAID}


def session_line(row: Row) -> str:
    """A session on one line, its id first: that is what the other tools want."""
    facts = [row.id, flat(row.title), row.type or row.kind, row.tool or row.agent, row.status]
    facts += [f"{row.message_count} messages", f"last active {row.last_active[:16]}"]
    return " · ".join(fact for fact in facts if fact)


def session_entry(row: Row) -> tuple[str, Json]:
    """A session of a list."""
    summary = f"\n   {flat(row.summary)}" if row.summary else ""
    return f"- {session_line(row)}{summary}", session_data(row)


def told_entry(told: SessionPassages) -> tuple[str, Json]:
    """A session with what was found in it."""
    lines = [f"# {session_line(told.session)}"]
    if told.session.summary:
        lines.append(f"summary: {flat(told.session.summary)}")
    for passage in told.passages:
        if passage.before:
            lines.append(f"  before: {flat(passage.before)}")
        lines.append(f"  [{passage.seq}] {passage.role}, {passage.timestamp[:16]}: {flat(passage.text)}")
        if passage.after:
            lines.append(f"  after: {flat(passage.after)}")
    passages = [_passage(passage) for passage in told.passages]
    return "\n".join(lines), {"session": session_data(told.session), "passages": passages}


def _passage(passage: Passage) -> Json:
    fields: Json = {name: getattr(passage, name) for name in Passage.__struct_fields__}
    return {name: value for name, value in fields.items() if value != ""}


def briefer(row: Row) -> Row | None:
    """A session without its summary; None where it has none."""
    return row._replace(summary="") if row.summary else None


def smaller(told: SessionPassages) -> SessionPassages | None:
    """With fewer passages, without the summary, then with shorter passages; None where it cannot be less."""
    without = briefer(told.session)
    if len(told.passages) > 1:
        return SessionPassages(session=told.session, passages=told.passages[:-1])
    if without is not None:
        return SessionPassages(session=without, passages=told.passages)
    longest = max((len(text) for one in told.passages for text in (one.text, one.before, one.after)), default=0)
    if longest < 40:
        return None
    cut = [
        replace(one, text=clip(one.text, longest // 2), before=clip(one.before, longest // 4),
                after=clip(one.after, longest // 4))
        for one in told.passages
    ]  # fmt: skip
    return SessionPassages(session=told.session, passages=cut)


def decision_entry(settled: SessionDecision) -> tuple[str, Json]:
    """A decision with its date and its session."""
    row, decision = settled.session, settled.decision
    where = f"{row.id}, message {decision.seq}"
    name = f"{flat(row.title)} ({where})" if row.title else where
    line = f"- {decision.timestamp[:10]} · {decision.role}: {flat(decision.text)}\n  in {name}"
    return line, {
        "date": decision.timestamp,
        "text": decision.text,
        "role": decision.role,
        "session": row.id,
        "title": row.title,
        "seq": decision.seq,
    }


def flat(text: str) -> str:
    """A text on one line."""
    return " ".join(text.split())
