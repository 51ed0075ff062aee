"""What the learned ranker knows about each candidate: one row per message, one column per name in `NAMES`.

Everything is relative to the other candidates of the same query, or a property of the message or the question alone, so
that a ranker trained on one kind of conversation says something about another. Names of sessions, dates, decisions and
tools are not among them: the conversations that may be trained on have none, so fixed weights add those (`rank`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from numpy.typing import NDArray

from cortext.index.search.arrays import np
from cortext.index.search.fuse import At, Signals
from cortext.index.search.query import ParsedQuery
from cortext.index.search.words import words_of
from cortext.model.message import Message

Floats = NDArray[np.float32]

NAMES = (
    "untrained", "untrained_rank", "fused", "fused_rank", "own", "own_rank", "words", "words_rank", "meaning",
    "meaning_rank", "beside", "session", "late", "late_rank", "verbatim", "focus", "late_above", "own_before",
    "own_after", "words_before", "words_after", "meaning_before", "meaning_after", "late_before", "late_after",
    "relative_length", "is_user", "asks", "has_number", "has_time", "has_name", "best_of_session", "asks_when",
    "asks_who", "asks_number", "asks_why",
)  # fmt: skip
# More of these is never worse, and a higher rank number is never better: what else training data suggests is chance.
RISING = ("untrained", "fused", "own", "words", "meaning", "beside", "late", "verbatim", "focus", "late_above")
FALLING = tuple(name for name in NAMES if name.endswith("_rank"))

_TIMES = frozenset(
    re.findall(
        "[a-z]+",
        "yesterday today tomorrow tonight ago last next week weekend month year monday tuesday wednesday thursday "
        "friday saturday sunday january february march april june july august september october november december",
    )
)
_YEAR_OR_HOUR = re.compile(r"\b(?:\d{4}|\d+:\d\d)\b")
_NUMBERS = frozenset(("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "dozen", "hundred"))
_DIGIT = re.compile(r"\d")
_NAME = re.compile(r"(?<=[a-z,;] )[A-Z][a-z]+")
_WHEN = re.compile(r"\b(?:when|what (?:time|date|day|year)|how long|wann|quand)\b", re.IGNORECASE)
_WHO = re.compile(r"\b(?:who|whose|whom|wer|qui)\b", re.IGNORECASE)
_HOW_MANY = re.compile(r"\bhow (?:many|much|often|old)\b", re.IGNORECASE)
_WHY = re.compile(r"\b(?:why|reason|warum|pourquoi)\b", re.IGNORECASE)
BEGINNING = 2_000  # characters of a message that are looked at


def features(
    query: ParsedQuery,
    places: Sequence[At],
    signals: Sequence[Signals],
    messages: Sequence[Message],
    texts: Sequence[str],
    untrained: NDArray[np.float64],
    late: Floats,
) -> Floats:
    """Return the features of these candidates."""
    index = {at: row for row, at in enumerate(places)}
    before = np.array([index.get((key, seq - 1), -1) for key, seq in places])
    after = np.array([index.get((key, seq + 1), -1) for key, seq in places])
    own, words, meaning, beside, session = (
        np.array([getattr(one, field) for one in signals]) for field in ("own", "words", "meaning", "beside", "session")
    )
    fused = own + beside + session
    length = np.log1p(np.array([len(text) for text in texts], dtype=np.float64))
    begins = [text[:BEGINNING] for text in texts]
    spoken = [set(words_of(text.lower())) for text in begins]
    digits = [bool(_DIGIT.search(text)) for text in begins]
    keys = np.array([key for key, _ in places])
    best_of_session = np.array([untrained[row] >= untrained[keys == key].max() for row, key in enumerate(keys)])
    question = query.asked
    count = len(places)

    def always(value: float) -> NDArray[np.float64]:
        return np.full(count, float(value))

    meaning = _of_best(meaning)
    near, focus = late[:, 0] - np.max(late[:, 0]), late[:, 2] - np.max(late[:, 2])
    columns = (
        _of_best(untrained), _rank(untrained), _of_best(fused), _rank(fused), _of_best(own), _rank(own),
        words, _rank(words), meaning, _rank(meaning), beside, session,
        near, _rank(near), late[:, 1], focus, near - near.mean(),
        _at(own, before), _at(own, after), _at(words, before), _at(words, after),
        _at(meaning, before), _at(meaning, after), _at(near, before, -1.0), _at(near, after, -1.0),
        length - _middle(length), [message.role == "user" for message in messages],
        ["?" in text for text in begins],
        [has or not said.isdisjoint(_NUMBERS) for has, said in zip(digits, spoken, strict=True)],
        [
            not said.isdisjoint(_TIMES) or (has and bool(_YEAR_OR_HOUR.search(text)))
            for has, said, text in zip(digits, spoken, begins, strict=True)
        ],
        [bool(_NAME.search(text)) for text in begins],
        best_of_session,
        always(bool(_WHEN.search(question))), always(bool(_WHO.search(question))),
        always(bool(_HOW_MANY.search(question))), always(bool(_WHY.search(question))),
    )  # fmt: skip
    return np.stack([np.asarray(column, dtype=np.float32) for column in columns], axis=1)


def _of_best(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return values / max(float(np.max(values)), 1e-6)


def _middle(values: NDArray[np.float64]) -> float:
    """Return the median. (numpy's own imports numpy.ma, a tenth of a cold query's imports.)"""
    ordered = np.sort(values)
    return float(ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def _rank(values: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the logarithm of each value's rank, the best first; equal values have the same rank."""
    ordered = np.sort(-np.asarray(values, dtype=np.float64))
    return np.asarray(np.log1p(np.searchsorted(ordered, -np.asarray(values, dtype=np.float64), side="left")))


def _at(values: NDArray[np.floating], rows: NDArray[np.int64], missing: float = 0.0) -> NDArray[np.float64]:
    """Return the values of these rows; `missing` for row -1."""
    return np.where(rows >= 0, np.asarray(values, dtype=np.float64)[rows], missing)
