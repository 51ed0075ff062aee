"""Combine scores by words, by meaning, by session name and by neighbouring messages into one.

Measured on long conversations (bench/quality.py): normalised, weighted scores beat rank fusion, which is worse than
words alone; neighbours, and how much of the session is about the query, are worth more than meaning itself.
"""

from __future__ import annotations

from collections.abc import Mapping

Place = tuple[int, int]  # session key, and twice the message number (plus 1 if the user wrote it)

Scores = dict[tuple[int, int], float]  # by session key and number of the message

MEANING = 0.3  # weight of meaning; words have the rest
WORDS_POWER = 1.2  # one good match counts more than two poor ones
MEANING_POWER = 1.5
NEAR = 0.1  # a cosine that any two texts reach
USER = 1.15  # messages by the user count a little more
BESIDE = ((1, 0.5), (-1, 0.25), (2, 0.1), (-2, 0.1))  # what a message adds to its neighbours: (distance, share)
LITTLE = 0.1  # fraction of the best score below which a message adds nothing to its neighbours
SESSION = 0.3  # bonus for every message of the most relevant session
SAYING = 3  # a session is judged by this many of its messages
NAMED = 0.3  # bonus for every message of a session whose name matches


def fused(
    words: Mapping[Place, float], meaning: Mapping[Place, float], names: Mapping[int, float], *, strict: bool = False
) -> Scores:
    """Return the scores of all messages that have one; the best are about 1 to 2.

    `strict` leaves out messages that did not match themselves and only neighbour a match.
    """
    own = _own(words, meaning)
    whole = dict(own)
    little = LITTLE * max(own.values(), default=0.0)
    for (key, seq), score in own.items():
        if score < little:
            continue
        for step, share in BESIDE:
            place = (key, seq + step)
            if not strict or place in own:
                whole[place] = whole.get(place, 0.0) + share * score
    bonus = _sessions(own)
    best = max([*names.values(), *words.values()], default=1.0) or 1.0
    for key, score in names.items():
        bonus[key] = bonus.get(key, 0.0) + NAMED * score / best
    for place in whole:
        whole[place] += bonus.get(place[0], 0.0)
    for key in names.keys() - {key for key, _ in own}:
        whole[key, 0] = bonus[key]  # only the name matches: show the session by its first message
    return {place: score for place, score in whole.items() if place[1] >= 0}


def _own(words: Mapping[Place, float], meaning: Mapping[Place, float]) -> Scores:
    """Return each message's own score, without its neighbours'."""
    best = max(words.values(), default=0.0) or 1.0
    nearest = max(max(meaning.values(), default=0.0) - NEAR, 0.05)
    weight = MEANING if meaning else 0.0
    own: Scores = {}
    for key, place in {**words, **meaning}:
        score = (1 - weight) * (words.get((key, place), 0.0) / best) ** WORDS_POWER
        score += weight * (max(0.0, meaning.get((key, place), 0.0) - NEAR) / nearest) ** MEANING_POWER
        own[key, place >> 1] = score * (USER if place & 1 else 1.0)
    return own


def _sessions(own: Scores) -> dict[int, float]:
    """Return each session's bonus: the sum of its best messages relative to the best session."""
    said: dict[int, list[float]] = {}
    for (key, _), score in own.items():
        said.setdefault(key, []).append(score)
    sums = {key: sum(sorted(scores, reverse=True)[:SAYING]) for key, scores in said.items()}
    best = max(sums.values(), default=0.0) or 1.0
    return {key: SESSION * score / best for key, score in sums.items()}


def in_order(words: Mapping[Place, float]) -> Scores:
    """Return scores for a query without words: the order of the hits, newest first."""
    return {(key, place >> 1): 1.0 / (rank + 1) for rank, (key, place) in enumerate(words)}
