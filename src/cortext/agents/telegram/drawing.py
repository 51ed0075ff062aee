"""The answer to a command as markdown for a small screen: a list instead of a table, links instead of ids."""

from __future__ import annotations

import re

from cortext.agents.assistant.commands import Answer

_LINKABLE = re.compile(r"[a-z0-9_]+")
_LONGEST = 32 - len("resume_")  # Telegram turns commands of up to 32 letters into links


def as_markdown(answer: Answer) -> str:
    """Return the answer as one text."""
    blocks = [_literal(answer.above)] if answer.above else []
    for number, (session_id, created, active, count, about) in enumerate((row[:5] for row in answer.rows), 1):
        messages = "message" if count == "1" else "messages"
        title = f"**{number}. {_plain(about) or session_id}**"
        blocks.append(f"{title}\n{active} · {count} {messages} · since {created}\n{_link(session_id)}")
    for hit in answer.hits:
        blocks.append(
            f"**{_plain(hit.title) or hit.id}** · {hit.where} · {hit.when}\n> {_plain(hit.snippet)}\n{_link(hit.id)}"
        )
    if answer.aligned:
        blocks.append(f"```\n{answer.text}\n```")
    elif answer.text:
        blocks.append(answer.text if answer.markdown else _literal(answer.text))
    return "\n\n".join(blocks)


def _link(session_id: str) -> str:
    """Return a command that resumes a session with one tap. It must not contain hyphens: underscores replace them."""
    name = session_id.replace("-", "_")
    if not _LINKABLE.fullmatch(name) or len(name) > _LONGEST:
        return f"`/resume {session_id}`"
    return _literal(f"/resume_{name}")


def _literal(text: str) -> str:
    """Return text with all markup escaped."""
    return re.sub(r"([\\`*_~\[\]()#>|])", r"\\\1", text)


def _plain(text: str) -> str:
    return _literal(" ".join(text.split()))
