"""One score from several: by words, by meaning, by the session's name, and by what stands beside a message.

Measured on long conversations (bench/quality.py): normalised scores, weighted, are better than ranks, which are worse
than words alone; what the neighbours say, and how much of the session is about it, is worth more than meaning itself.
"""

from __future__ import annotations

from collections.abc import Mapping

Place = tuple[int, int]  # session key, and twice the number of the message (plus 1 where the user said it)

Scores = dict[tuple[int, int], float]  # by session key and number of the message

MEANING = 0.3  # the weight of meaning; the words have the rest
WORDS_POWER = 1.2  # a good match counts more than two poor ones
MEANING_POWER = 1.5
NEAR = 0.1  # a cosine that any two texts have
USER = 1.15  # what the user said counts a little more
BESIDE = ((1, 0.5), (-1, 0.25), (2, 0.1), (-2, 0.1))  # how much a message adds to those after and before it
LITTLE = 0.1  # of the best score: what has less adds nothing to its neighbours
SESSION = 0.3  # for every message of the session that says most about it
SAYING = 3  # messages that a session is judged by
NAMED = 0.3  # for every message of a session whose name matches


def fused(
    words: Mapping[Place, float], meaning: Mapping[Place, float], names: Mapping[int, float], *, strict: bool = False
) -> Scores:
    """The scores of all messages that have one; those of the best are about 1 to 2.

    `strict` leaves out those that only stand beside one that was found.
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
        whole[key, 0] = bonus[key]  # only the name matches: the session is shown by its beginning
    return {place: score for place, score in whole.items() if place[1] >= 0}


def _own(words: Mapping[Place, float], meaning: Mapping[Place, float]) -> Scores:
    """What each message says itself."""
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
    """How much each session is about it: by its best messages, beside the best session."""
    said: dict[int, list[float]] = {}
    for (key, _), score in own.items():
        said.setdefault(key, []).append(score)
    sums = {key: sum(sorted(scores, reverse=True)[:SAYING]) for key, scores in said.items()}
    best = max(sums.values(), default=0.0) or 1.0
    return {key: SESSION * score / best for key, score in sums.items()}


def in_order(words: Mapping[Place, float]) -> Scores:
    """For a query without words: the messages in the order they came in, the newest first."""
    return {(key, place >> 1): 1.0 / (rank + 1) for rank, (key, place) in enumerate(words)}
