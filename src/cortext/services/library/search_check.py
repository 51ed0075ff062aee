"""What a message must be to be shown: the index gives candidates by several ways, and not each knows all of a query."""

from __future__ import annotations

from collections.abc import Callable, Collection

from cortext.index.search.query import Query, Word, moment, number
from cortext.index.search.words import SIGNS, clean, searchable
from cortext.index.sessions import Row
from cortext.model.message import Message

LAST = 99991231235959


class Check:
    """One query's conditions; it also sees to it that no message is shown twice (as a fork's or a copy's)."""

    def __init__(self, query: Query, stems: Callable[[str], list[str]], unwanted: Collection[str]) -> None:
        self._stems = stems
        self._role = query.filters.get("role", "")
        after, before = query.filters.get("after", ""), query.filters.get("before", "")
        self._first = moment(after) if after else 0
        self._last = moment(before, end=True) if before else LAST
        self._must = [word for word in query.words if (word.must or word.phrase) and not word.excluded]
        self._excluded = [word for word in query.words if word.excluded]
        self._shown: set[tuple[str, str]] = set()
        self._unwanted = unwanted

    def is_copy(self, message: Message) -> bool:
        """Whether it was shown already, or stands in a session that is not wanted."""
        return message.id in self._unwanted or (message.id, searchable(message)) in self._shown

    def allows(self, message: Message, row: Row) -> bool:
        """Whether the message may be shown; it counts as shown then."""
        text = searchable(message)
        if self._role and message.role != self._role:
            return False
        if (self._first or self._last != LAST) and not self._first <= number(message.timestamp) <= self._last:
            return False
        if (self._must or self._excluded) and not self._words(text, row):
            return False
        self._shown.add((message.id, text))
        return True

    def _words(self, text: str, row: Row) -> bool:
        said = self._stems(text)
        if any(self._holds(word, text, said) for word in self._excluded):
            return False
        missing = [word for word in self._must if not self._holds(word, text, said)]
        if not missing:
            return True
        name = f"{row.title}\n{row.summary}"
        named = self._stems(name)
        return all(self._holds(word, name, named) for word in missing)

    def _holds(self, word: Word, text: str, said: list[str]) -> bool:
        rows = SIGNS.findall(clean(word.text))
        if any(row not in text for row in rows):
            return False
        wanted = self._stems(SIGNS.sub(" ", clean(word.text)))
        if word.begins and len(wanted) == 1:
            return any(stem.startswith(wanted[0]) for stem in said) or word.text.lower() in text.lower()
        if not wanted:
            return bool(rows)
        size = len(wanted)
        return any(said[start : start + size] == wanted for start in range(len(said) - size + 1))
