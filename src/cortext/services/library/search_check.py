"""The conditions that a candidate from the index must meet: not every kind of lookup evaluates the whole query."""

from __future__ import annotations

from collections.abc import Callable, Collection

from cortext.index.search.query import ParsedQuery, Word
from cortext.index.search.words import SIGNS, clean, searchable
from cortext.index.sessions import Row
from cortext.model.message import Message
from cortext.model.query import FILTERS, moment, number

LAST = 99991231235959


class Check:
    """The conditions of one query; it also prevents that a message is shown twice, from a fork or a copy."""

    def __init__(self, query: ParsedQuery, stems: Callable[[str], list[str]], unwanted: Collection[str]) -> None:
        self._stems = stems
        given = [(filter, query.filters.get(name, "")) for name, filter in FILTERS.items()]
        self._fields = [(filter.field, value) for filter, value in given if filter.field and not filter.is_time]
        self._fields = [(field, value) for field, value in self._fields if value]
        after, before = query.filters.get("after", ""), query.filters.get("before", "")
        self._first = moment(after) if after else 0
        self._last = moment(before, end=True) if before else LAST
        self._must = [word for word in query.words if (word.must or word.phrase) and not word.excluded]
        self._excluded = [word for word in query.words if word.excluded]
        self._shown: set[tuple[str, str]] = set()
        self._unwanted = unwanted

    def is_copy(self, message: Message) -> bool:
        """Whether the message was shown already, or is also in a session that is left out."""
        return message.id in self._unwanted or (message.id, searchable(message)) in self._shown

    def allows(self, message: Message, row: Row) -> bool:
        """Whether the message meets the conditions; if so, it counts as shown."""
        text = searchable(message)
        if any(getattr(message, field) != value for field, value in self._fields):
            return False
        if (self._first or self._last != LAST) and not self._first <= number(message.timestamp) <= self._last:
            return False
        if (self._must or self._excluded) and not self._has_words(text, row):
            return False
        self._shown.add((message.id, text))
        return True

    def _has_words(self, text: str, row: Row) -> bool:
        stems = self._stems(text)
        if any(self._contains(word, text, stems) for word in self._excluded):
            return False
        missing = [word for word in self._must if not self._contains(word, text, stems)]
        if not missing:
            return True
        session_text = f"{row.title}\n{row.summary}"
        session_stems = self._stems(session_text)
        return all(self._contains(word, session_text, session_stems) for word in missing)

    def _contains(self, word: Word, text: str, stems: list[str]) -> bool:
        symbols = SIGNS.findall(clean(word.text))
        if any(run not in text for run in symbols):
            return False
        wanted = self._stems(SIGNS.sub(" ", clean(word.text)))
        if word.begins and len(wanted) == 1:
            return any(stem.startswith(wanted[0]) for stem in stems) or word.text.lower() in text.lower()
        if not wanted:
            return bool(symbols)
        size = len(wanted)
        return any(stems[start : start + size] == wanted for start in range(len(stems) - size + 1))
