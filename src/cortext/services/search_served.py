"""What stores on servers find: each server searches its own messages by their words."""

from __future__ import annotations

from cortext.services.search import Found, Match
from cortext.services.snippets import snippet

TYPE_CHECKING = False  # as mypy knows it: importing typing would cost a quarter of our start-up
if TYPE_CHECKING:
    from collections.abc import Collection

    from cortext.index.query import Query
    from cortext.services.listing import Listing
    from cortext.services.search_check import Check


def from_servers(listing: Listing, query: Query, limit: int, leave_out: Collection[str], check: Check) -> list[Found]:
    """The best messages of each server, one match each."""
    from cortext.index.words import WORD, searchable

    roots = set(listing.roots(query.filters["workspace"])) if "workspace" in query.filters else None
    found: list[Found] = []
    for root, server in listing.servers.items():
        if roots is not None and root not in roots:
            continue
        for hit in server.store.find(query.said, limit):
            row = server.row(hit.session)
            wanted = ("tool", "type", "status", "agent")
            if row.id in leave_out or any(
                getattr(row, name) != query.filters.get(name, getattr(row, name)) for name in wanted
            ):
                continue
            if check.is_copy(hit.message) or not check.allows(hit.message, row):
                continue
            lit = {word.lower() for word in WORD.findall(query.said)}
            shown, spans = snippet(searchable(hit.message), lit, _plain_tokens)
            message = hit.message
            facts = (message.id, message.seq, message.role, message.timestamp)
            found.append(Found(row, [Match(*facts, shown, spans, hit.score, "", "")], hit.score))
    return found


def _plain_tokens(text: str) -> list[tuple[str, int, int]]:
    from cortext.index.words import WORD

    return [(match.group().lower(), match.start(), match.end()) for match in WORD.finditer(text)]
