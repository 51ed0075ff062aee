"""What it costs to carry a conversation into a tool: its tokens at the input price of the model used there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cortext.model.usage import Tokens
from cortext.services.cost.prices import Prices
from cortext.services.cost.report import money

LEAST = 0.01  # dollars that are worth a line


class Carrying(NamedTuple):
    """The price of a conversation in one tool, with the model that it was computed for."""

    tool: str
    model: str
    cost: float


def carrying(
    tokens: int, tools: Sequence[str], prices: Prices, *, model: str = "", used: dict[str, str] | None = None
) -> list[Carrying]:
    """Return the price in each tool whose model and price are known.

    The model is `model` for the first tool if that is given, else the one that was used there last (`used`), else the
    one that the price table assumes.
    """
    found = []
    for index, tool in enumerate(tools):
        name = (model if index == 0 else "") or (used or {}).get(tool, "") or prices.assumed.get(tool, "")
        price = prices.of(name) if name else None
        if price is not None:
            found.append(Carrying(tool, name, price.of_call(Tokens(input=tokens))))
    return found


def sentence(found: Sequence[Carrying]) -> str:
    """Return the prices as a sentence for a receipt; empty if none is known, or the first is below a cent."""
    if not found or found[0].cost < LEAST:
        return ""
    return "carrying this costs about " + ", ".join(f"{money(cost)} in {tool} ({model})" for tool, model, cost in found)
