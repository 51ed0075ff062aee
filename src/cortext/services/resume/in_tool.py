"""`/workspace.resume` inside a running tool: the list, or a packet cut to what the tool's command can carry."""

from __future__ import annotations

from collections.abc import Iterable

from cortext.errors import AmbiguousId, NotFound
from cortext.model import clock
from cortext.model.message import thread
from cortext.services.choose import choose
from cortext.services.export import masked
from cortext.services.registry import command_text
from cortext.services.resume.packet import build
from cortext.services.stores import Found, NamedStore, all_sessions

# Hooks and commands of the tools carry 10,000 characters for certain: the rest is fetched through MCP.
LARGEST = 9_500
LISTED = 12


def answer_in_tool(places: Iterable[NamedStore], workspace: str, wanted: str, largest: int = LARGEST) -> str:
    """What the model is to read: numbered conversations where nothing is named, else the packet."""
    found = all_sessions(places)
    if not wanted.strip():
        return listing(found)
    try:
        chosen = choose(found, wanted.strip())
    except (AmbiguousId, NotFound) as error:
        return f"{error.message}. {error.hint}.\n\n{listing(found)}"
    command, _ = command_text(workspace or chosen.place.root, chosen.session.type)
    messages, _ = masked(thread(chosen.place.store.read(chosen.session.id)))
    budget = largest // 4
    text = ""
    while budget > 200:  # tokens are an estimate, characters are the tool's limit
        text = build(chosen.session, messages, command=command, budget=budget).text()
        if len(text) <= largest:
            return text
        budget = budget * 3 // 4
    return text[:largest]


def listing(found: list[Found]) -> str:
    """The conversations that can be resumed, as the user is to see them."""
    if not found:
        return "There are no conversations to resume yet. Start one with /workspace.brainstorm and a topic."
    lines = ["Here are your resumable conversations:", ""]
    for number, item in enumerate(found[:LISTED], 1):
        session = item.session
        lines.append(f"{number}. [{session.type or item.place.kind}] {session.title or session.id}")
        lines.append(f"   Last active: {clock.ago(session.last_active)} | Status: {session.shown_status}")
        if session.summary:
            lines.append(f"   Summary: {' '.join(session.summary.split())[:200]}")
        lines.append("")
    if len(found) > LISTED:
        lines.append(f"({len(found) - LISTED} more: search them by words from the title)")
    lines.append("Which conversation would you like to continue? (number or search)")
    return "\n".join(lines)
