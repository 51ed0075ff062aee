"""Choose one of several sessions: the browser, limited to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cortext.faces.cortext.browse.screen import Browser, Chosen
from cortext.services.library.finder import Entry, Listed, Question, tag_choices
from cortext.services.library.listing import Row

Matches = Callable[[Sequence[Row], str], Sequence[Row]]  # the rows that a text matches


class MatchFinder:
    """Finds among a few sessions, by the words with which a session can be named."""

    def __init__(self, rows: Sequence[Row], matches: Matches) -> None:
        self._rows, self._matches = rows, matches
        self._values = [sorted({getattr(row, name) for row in rows} - {""}) for name in ("tool", "type", "status")]
        self._values.append(tag_choices([_order(row) for row in rows]))

    def find(self, question: Question) -> Listed:
        """Return the sessions that match a question, in their original order."""
        wanted = [(name, getattr(question, name)) for name in ("tool", "type", "status", "root")]
        rows = [row for row in self._rows if all(value in ("", getattr(row, name)) for name, value in wanted)]
        if question.tag:
            rows = [row for row in rows if question.tag in tag_choices([_order(row)])]
        rows = list(self._matches(rows, question.text)) if question.text.strip() else rows
        found_tools, types, statuses, tags = self._values
        return Listed([Entry(row) for row in rows], found_tools, types, statuses, tags)


def _order(row: Row) -> tuple[str, int, int]:
    return row.tags, row.starred, row.archived


def pick(rows: Sequence[Row], matches: Matches, folder: str, here: str, tools: Sequence[str]) -> Chosen | None:
    """Return the session that the user chose, and the AI tool if one was chosen; None if the user left."""
    browser = Browser(
        folder, here, tools, lambda: None, find=MatchFinder(rows, matches).find, title="Choose a conversation"
    )
    return browser.run(Question())
