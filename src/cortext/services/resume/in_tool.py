"""`/workspace.resume` inside a running tool: the list, or a packet cut to what the tool's command can carry."""

from __future__ import annotations

from cortext.errors import AmbiguousId, NotFound
from cortext.index.sessions import Row
from cortext.model import clock
from cortext.services.choose import choose
from cortext.services.listing import Listing
from cortext.services.registry import command_text
from cortext.services.resume.digest import clip
from cortext.services.resume.history import History
from cortext.services.resume.packet import build

# Hooks and commands of the tools carry 10,000 characters for certain: the rest is fetched through MCP.
LARGEST = 9_500
LISTED = 12


def answer_in_tool(listing: Listing, wanted: str, largest: int = LARGEST) -> str:
    """What the model is to read: numbered conversations where nothing is named, else the packet."""
    rows = listing.rows()
    if not wanted.strip():
        return list_text(rows)
    try:
        chosen = listing.found(choose(rows, wanted.strip()))
    except (AmbiguousId, NotFound) as error:
        return f"{error.message}. {error.hint}.\n\n{list_text(rows)}"
    command = command_text(chosen.place.root, chosen.session.type, chosen.session.title)
    history = History(chosen.place.store, chosen.session)
    budget = largest // 4
    text = ""
    while budget > 200:  # tokens are an estimate, characters are the tool's limit
        text = build(chosen.session, history, command=command, budget=budget).masked().text()
        if len(text) <= largest:
            return text
        budget = budget * 3 // 4
    return text[:largest]


def list_text(rows: list[Row]) -> str:
    """The conversations that can be resumed, as the user is to see them."""
    if not rows:
        return "There are no conversations to resume yet. Start one with /workspace.brainstorm and a topic."
    lines = ["Here are your resumable conversations:", ""]
    for number, row in enumerate(rows[:LISTED], 1):
        lines.append(f"{number}. [{row.type or row.kind}] {row.name}")
        lines.append(f"   Last active: {clock.ago(row.last_active)} | Status: {row.status}")
        if row.summary:
            lines.append(f"   Summary: {clip(row.summary, 200)}")
        lines.append("")
    if len(rows) > LISTED:
        lines.append(f"({len(rows) - LISTED} more: search them by words from the title)")
    lines.append("Which conversation would you like to continue? (number or search)")
    return "\n".join(lines)
