"""What it costs to carry a conversation into a tool: its tokens at the input price of the model used there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from cortext.errors import CortextError
from cortext.index.activity import CallIndex
from cortext.model.query import Query
from cortext.model.session import Session
from cortext.model.tokens import Tokens
from cortext.services.cost.prices import UNKNOWN, Prices, money
from cortext.services.library.listing import Listing

LEAST = 0.01  # dollars that are worth a line
MOST = 3  # tools whose price is named
RECENT = 50  # sessions that show which models are in use


class Carrying(NamedTuple):
    """The price of a conversation in one tool, with the model that it was computed for; None if it is unknown."""

    tool: str
    model: str
    cost: float | None


class CarryingPrices:
    """The prices of carrying conversations into the tools that were used here. `can_resume` knows which ones can."""

    def __init__(self, listing: Listing, prices: Callable[[], Prices], can_resume: Callable[[str], bool]) -> None:
        self._listing, self._prices, self._can_resume = listing, prices, can_resume

    def price(self, tokens: int, target: str) -> str:
        """Return what it costs to carry this many tokens into the target, even below a cent; else UNKNOWN."""
        try:
            found = _in(self._prices(), target, models_in_use(self._listing, target).get(target, ""), tokens)
        except CortextError:  # the prices cannot be read: the sentence says why
            return UNKNOWN
        return UNKNOWN if found.cost is None else f"about {money(found.cost)}"

    def sentence(self, session: Session, tokens: int, target: str = "", model: str = "") -> str:
        """Return what it costs to carry so many tokens of a conversation into the target and into other tools.

        The model of the target is `model`, or else the one that was used there last. Without a target, a packet can be
        given to any tool: the one that the conversation was held in comes first. Empty if everything is below a cent.
        Prices that cannot be read are no reason not to resume: the sentence then says why.
        """
        try:
            prices = self._prices()
        except CortextError as error:
            return f"what carrying this costs is unknown: {error.message}"
        used = models_in_use(self._listing, target)
        found = [_in(prices, target, model or used.get(target, ""), tokens)] if target else []
        own = [] if target else [session.origin.tool]
        for name in dict.fromkeys((*own, *used, *prices.assumed)):
            if len(found) == MOST:
                break
            item = _in(prices, name, used.get(name, ""), tokens)
            if name != target and item.cost is not None and (not target or self._can_resume(name)):
                found.append(item)
        return sentence(found)


def _in(prices: Prices, tool: str, model: str, tokens: int) -> Carrying:
    name = model or prices.assumed.get(tool, "")
    price = prices.of(name) if name else None
    return Carrying(tool, name, price.of_call(Tokens(input=tokens)) if price is not None else None)


def models_in_use(listing: Listing, target: str = "") -> dict[str, str]:
    """Return the model that each tool used last, the tool that was used last first; the target's however long ago."""
    found: dict[str, str] = {}
    for tool, model in _models(listing, target):
        if tool and model:
            found.setdefault(tool, model)
    return found


def _models(listing: Listing, target: str) -> Iterator[tuple[str, str]]:
    """Yield tools and models: of the newest session of each tool, and of the calls that were read for the costs."""
    seen: set[str] = set()
    try:
        rows = [
            *listing.rows(Query(limit=RECENT)),
            *(listing.rows(Query(filters={"tool": target}, limit=1)) if target else ()),
        ]
    except CortextError:
        rows = []  # a server does not answer
    for row in rows:
        if row.tool and row.tool not in seen:
            seen.add(row.tool)
            try:
                session = listing.found(row).session
            except (CortextError, OSError):
                continue  # it was deleted in between
            yield row.tool, session.agent_config.model
    yield from CallIndex(listing.index.database).models().items()


def sentence(found: Sequence[Carrying]) -> str:
    """Return the prices as a sentence for a receipt, the target's first; empty if those that are known are tiny."""
    known = [item.cost for item in found if item.cost is not None]
    if not found or (known and max(known) < LEAST):
        return ""
    first, *others = found
    amounts = [f"{money(cost)} in {tool} ({model})" for tool, model, cost in others]
    if first.cost is not None:
        start = f"carrying this costs about {money(first.cost)}"
    else:
        start = "carrying this costs an unknown amount"
        amounts[:1] = [f"about {text}" for text in amounts[:1]]
    return ", ".join([f"{start} in {first.tool} ({first.model or UNKNOWN + ' model'})", *amounts])
