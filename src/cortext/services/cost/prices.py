"""Prices of models: the table of this package, with the date and the source of each vendor, and the user's own.

A price is in dollars per million tokens. A model that is in neither table has no price: its cost is unknown, not 0.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from functools import cache
from typing import Annotated

import msgspec

from cortext.errors import ConfigError, NotFound
from cortext.io import durable
from cortext.model import clock
from cortext.model.tokens import Tokens

TABLE = os.path.join(os.path.dirname(__file__), "prices.json")
LARGEST = 4 << 20  # bytes of a table
UNKNOWN = "unknown"

_PROVIDER = re.compile(r"^(?:[a-z]{2,6}\.)?(?:anthropic|openai|google|mistral|deepseek|moonshot|zai|xai|qwen)[.:]")
_SUFFIX = re.compile(r"(?:\[[^\]]*\]|@[\w-]+|-v\d+:\d+|:(?:thinking|extended|online|beta))$")
_DATED = re.compile(r"-(?:20\d{6}|20\d\d-\d\d-\d\d|latest|preview(?:-\d\d-(?:20)?\d\d)?|exp)$")


Dollars = Annotated[float, msgspec.Meta(ge=0)]
Day = Annotated[str, msgspec.Meta(pattern=r"^(?:20\d\d-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01]))?$")]


class Rates(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Dollars per million tokens. Without a price of its own, what goes through the cache costs as much as input."""

    input: Dollars
    output: Dollars
    cache_read: Dollars | None = None
    cache_write: Dollars | None = None
    cache_write_1h: Dollars | None = None

    def cost(self, tokens: Tokens) -> float:
        """Return the price of these tokens in dollars."""
        read = self.input if self.cache_read is None else self.cache_read
        write = self.input if self.cache_write is None else self.cache_write
        write_1h = write if self.cache_write_1h is None else self.cache_write_1h
        return (
            tokens.input * self.input
            + tokens.output * self.output
            + tokens.cache_read * read
            + tokens.cache_write * write
            + tokens.cache_write_1h * write_1h
        ) / 1_000_000


class LongRates(Rates, kw_only=True):
    """The prices of a call whose prompt has more than `over` tokens: they apply to the whole call."""

    over: int


class Price(Rates, kw_only=True):
    """The prices of a model, from a day on."""

    long: LongRates | None = None
    since: Day = msgspec.field(default="", name="from")
    as_of: Day = ""  # if not that of the vendor

    def of_call(self, tokens: Tokens) -> float:
        """Return the price of one call in dollars."""
        if self.long is not None and tokens.prompt > self.long.over:
            return self.long.cost(tokens)
        return self.cost(tokens)


Models = dict[str, Price | list[Price]]


class _Vendor(msgspec.Struct, forbid_unknown_fields=True):
    models: Models
    source: str = ""
    as_of: Day = ""
    recorded_by: str = ""


class _Table(msgspec.Struct, forbid_unknown_fields=True):
    """A file of prices. The user's own needs nothing but `models`."""

    vendors: dict[str, _Vendor] = {}
    models: Models = {}
    aliases: dict[str, str] = {}
    assumed: dict[str, str] = {}
    date: str = ""
    note: str = ""
    currency: str = "USD"
    per_tokens: int = 1_000_000


class PriceSource(msgspec.Struct, frozen=True):
    """Where the prices of a vendor come from, and of which day they are.

    `recorded_by` is the record that they were copied from, if they were not read on the vendor's page.
    """

    vendor: str
    source: str
    as_of: str
    recorded_by: str


class Prices:
    """The prices that are in force: the user's own first, then those of this package."""

    def __init__(self, own: str = "") -> None:
        table = _read(TABLE)
        mine = _read(own) if own else _Table()
        self.date, self.own = table.date, own
        self.assumed = table.assumed | mine.assumed
        self.sources = [
            PriceSource(name, vendor.source, vendor.as_of, vendor.recorded_by) for name, vendor in table.vendors.items()
        ]
        self._aliases, self._own_aliases = _aliases(table), _aliases(mine)
        self._prices, self._own = _prices(table), _prices(mine)
        self._found: dict[str, list[Price] | None] = {}

    def of(self, model: str, at: float = 0) -> Price | None:
        """Return the price of a model at a time (0: now); None if it is unknown."""
        if model not in self._found:
            name = self._name(model)
            self._found[model] = self._own.get(name) or self._prices.get(name)
        found = self._found[model]
        if not found or len(found) == 1:
            return found[0] if found else None
        day = (clock.from_epoch(at) if at else clock.now())[:10]
        return next((price for price in reversed(found) if price.since <= day), found[0])

    def is_own(self, model: str) -> bool:
        """Whether the user set the price of this model."""
        return canonical(model) in self._own_aliases or self._name(model) in self._own

    def days(self, models: Iterable[str]) -> str:
        """Return the day of the prices of these models, or the first and the last: empty if the table has none."""
        found = {price.as_of for model in models if not self.is_own(model) and (price := self.of(model)) is not None}
        return " to ".join(sorted({min(found), max(found)})) if found else ""

    def _name(self, model: str) -> str:
        """Return the name under which a model has its price; what the user set comes first."""
        name = canonical(model)
        if name in self._own:
            return name
        name = self._own_aliases.get(name, name)
        return name if name in self._own or name in self._prices else self._aliases.get(name, name)

    def cost(self, model: str, tokens: Tokens, at: float = 0, recorded: float | None = None) -> float | None:
        """Return what a call cost in dollars; None if its price is unknown.

        What the tool itself recorded counts, unless the user set the price of the model.
        """
        if recorded is not None and not self.is_own(model):
            return recorded
        price = self.of(model, at)
        return price.of_call(tokens) if price is not None else None


@cache
def canonical(model: str) -> str:
    """Return the name of a model without what does not change its price: provider, date, spelling of the version."""
    name = model.strip().lower().rpartition("/")[2]
    name = _PROVIDER.sub("", name)
    while (shorter := _SUFFIX.sub("", name)) != name:
        name = shorter
    while (shorter := _DATED.sub("", name)) != name:
        name = shorter
    return name.replace(".", "-").replace("_", "-")


def _prices(table: _Table) -> dict[str, list[Price]]:
    """Return the prices by canonical name, each from the oldest to the newest."""
    found: dict[str, list[Price]] = {}
    for models, day in (*((vendor.models, vendor.as_of) for vendor in table.vendors.values()), (table.models, "")):
        for name, given in models.items():
            prices = given if isinstance(given, list) else [given]
            for price in prices:
                price.as_of = price.as_of or day
            found[canonical(name)] = sorted(prices, key=lambda price: price.since)
    return found


def _aliases(table: _Table) -> dict[str, str]:
    return {canonical(name): canonical(model) for name, model in table.aliases.items()}


def _read(path: str) -> _Table:
    try:
        raw = durable.read_file(path, LARGEST)
    except OSError as error:
        raise NotFound(
            f"cannot read the prices in {path}: {error.strerror or error}",
            kept="nothing was changed",
            hint="check that the file exists",
        ) from error
    try:
        table = msgspec.json.decode(raw, type=_Table)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"invalid prices in {path}: {error}",
            kept="nothing was changed",
            hint='use {"models": {"NAME": {"input": 3, "output": 15}}}, in dollars per million tokens',
        ) from error
    if table.currency != "USD" or table.per_tokens != 1_000_000:
        raise ConfigError(
            f"the prices in {path} are not in dollars per million tokens",
            kept="nothing was changed",
            hint="convert them, and leave out currency and per_tokens",
        )
    return table


def money(cost: float | None, unpriced: int = 0) -> str:
    """Return an amount for people: to the cent, or with two significant digits below that."""
    if cost is None:
        return UNKNOWN
    small = f"${cost:.2g}" if cost >= 0.0001 else "<$0.0001"
    text = small if 0 < cost < 0.0995 else f"${cost:,.2f}"
    return f"{text} + {UNKNOWN}" if unpriced else text
