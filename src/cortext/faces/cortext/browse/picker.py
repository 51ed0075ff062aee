"""Choose one of several sessions: the browser, limited to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cortext.faces.cortext.browse.screen import Browser, Chosen
from cortext.model.query import EQUAL, FILTERS, Query
from cortext.services.library.finder import FinderAnswer, tag_choices
from cortext.services.library.listing import Row
from cortext.services.library.search import Answer, SessionHit
from cortext.services.library.sources import meets, selection

Matches = Callable[[Sequence[Row], str], Sequence[Row]]  # the rows that a text matches


class MatchFinder:
    """Finds among a few sessions, by the words with which a session can be named."""

    def __init__(self, rows: Sequence[Row], matches: Matches) -> None:
        self._rows, self._matches = rows, matches
        names = [name for name, filter in FILTERS.items() if filter.is_offered and filter.compare == EQUAL]
        self._values = {name: sorted({getattr(row, FILTERS[name].column) for row in rows} - {""}) for name in names}
        self._values["tag"] = tag_choices([(row.tags, row.starred, row.archived) for row in rows])

    def find(self, query: Query) -> FinderAnswer:
        """Return the sessions that a query chooses, in their original order."""
        chosen = selection(query, lambda folder: [folder])
        conditions = [*chosen.where, *([("status", chosen.status)] if chosen.status else [])]
        rows = [row for row in self._rows if query.roots is None or row.root in query.roots]
        rows = [row for row in rows if all(meets(row, *condition) for condition in conditions)]
        rows = list(self._matches(rows, query.text)) if query.text.strip() else rows
        return FinderAnswer(Answer([SessionHit(row, [], 0.0) for row in rows]), self._values)


def pick(rows: Sequence[Row], matches: Matches, folder: str, here: str, tools: Sequence[str]) -> Chosen | None:
    """Return the session that the user chose, and the AI tool if one was chosen; None if the user left."""
    browser = Browser(
        folder, here, tools, lambda: None, find=MatchFinder(rows, matches).find, title="Choose a conversation"
    )
    return browser.run(Query())
