"""Tokens: how many a text has, and what one call of a model used, from the record that each tool keeps of it.

A message keeps of that record what is read here (`Message.usage`, `read_of`). The tools agree neither on names nor on
what a number includes, so the shapes are listed here, each with the key by which it is recognised.
"""

from __future__ import annotations

from typing import Any, NamedTuple

# No message is larger than this, and a database can sum billions of them.
MOST = 2**31 - 1
_WIDE = bytes(range(0xE0, 0x100))

# Key in a message's `extra`: the provider's ids of the answer and its request, which copies of the message share.
CALL = "call"
# Key in a message's `extra`: when the limits of a subscription are reset, as the tool recorded it before or after this
# call: {minutes of the window: seconds since 1970}.
LIMITS = "limits"
FIVE_HOURS, WEEK = "300", "10080"


def counted(value: object) -> int | None:
    """Return a count that someone else wrote, or None if it cannot be one (negative, too large, not a number)."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST:
        return value
    return None


def estimate(text: str) -> int:
    """Estimate the tokens of a text without a vocabulary: a quarter of its characters (8.6% too high on real chats).

    Characters of three bytes or more (CJK, most symbols) count as one token each.
    """
    if text.isascii():
        return (len(text) + 3) // 4
    # In UTF-8 each of those begins with a byte from 0xE0 on. Usually all of them begin with 0xE2 (arrows, dashes,
    # quotes) and there is nothing else: the length shows that, and saves a second pass.
    raw = text.encode("utf-8", "surrogatepass")
    wide = raw.count(b"\xe2")
    if len(raw) - len(text) != 2 * wide:
        wide = len(raw) - len(raw.translate(None, _WIDE))
    return wide + (len(text) - wide + 3) // 4


class Tokens(NamedTuple):
    """The tokens of one call, each counted once. `reasoning` is the part of `output` that nobody sees.

    `cache_write` are tokens written to the cache for five minutes, `cache_write_1h` those written for an hour.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write_1h: int = 0
    reasoning: int = 0

    @property
    def prompt(self) -> int:
        """What the model was sent, from the cache or not: long-context prices depend on it."""
        return self.input + self.cache_read + self.cache_write + self.cache_write_1h

    @property
    def total(self) -> int:
        """Everything that was counted."""
        return self.prompt + self.output

    def plus(self, other: Tokens) -> Tokens:
        """Return the sum of both."""
        return Tokens(*map(int.__add__, self, other))


class TokenUse(NamedTuple):
    """The tokens of a record, the tool that writes such records (empty if several do), and the price it recorded."""

    tokens: Tokens
    tool: str
    cost: float | None  # in dollars


class _Shape(NamedTuple):
    """Where a tool's records have which number. A name with a dot is a key in a nested object.

    `holds_cached`: the input includes what was read from the cache; `holds_reasoning`: the output includes reasoning.
    """

    mark: str
    tool: str
    input: str
    output: str
    cache_read: str = ""
    cache_write: str = ""
    cache_write_1h: str = ""
    reasoning: str = ""
    more_input: str = ""
    total: str = ""
    cost: str = ""
    cents: str = ""
    holds_cached: bool = False
    holds_reasoning: bool = True


_SHAPES = (
    _Shape(
        "cache_creation_input_tokens", "claude", "input_tokens", "output_tokens", "cache_read_input_tokens",
        "cache_creation_input_tokens", "cache_creation.ephemeral_1h_input_tokens",
    ),
    _Shape(
        "cached_input_tokens", "codex", "input_tokens", "output_tokens", "cached_input_tokens",
        "cache_write_input_tokens", reasoning="reasoning_output_tokens", holds_cached=True,
    ),
    _Shape(
        "promptTokenCount", "", "promptTokenCount", "candidatesTokenCount", "cachedContentTokenCount",
        reasoning="thoughtsTokenCount", more_input="toolUsePromptTokenCount", total="totalTokenCount",
        holds_cached=True, holds_reasoning=False,
    ),
    _Shape(
        "thoughts", "gemini", "input", "output", "cached", reasoning="thoughts", more_input="tool",
        holds_cached=True, holds_reasoning=False,
    ),
    _Shape(
        "cache", "opencode", "input", "output", "cache.read", "cache.write", reasoning="reasoning", cost="cost",
        holds_reasoning=False,
    ),
    _Shape("cacheRead", "pi", "input", "output", "cacheRead", "cacheWrite", cost="cost.total"),
    _Shape("inputOther", "kimi", "inputOther", "output", "inputCacheRead", "inputCacheCreation"),
    _Shape(
        "prompt_tokens", "", "prompt_tokens", "completion_tokens", "prompt_tokens_details.cached_tokens",
        reasoning="completion_tokens_details.reasoning_tokens", cents="cost_cents", holds_cached=True,
    ),
    _Shape(
        "cacheReadInputTokens", "amp", "inputTokens", "outputTokens", "cacheReadInputTokens",
        "cacheCreationInputTokens",
    ),
    _Shape(
        "inputTokens", "", "inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens",
        holds_cached=True,
    ),
    _Shape(
        "output_tokens", "", "input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens",
        reasoning="reasoning_tokens",
    ),
    _Shape("input_tokens", "", "input_tokens", "output_tokens"),
    _Shape("input", "", "input", "output", "cached", holds_cached=True),
)  # fmt: skip


def read_of(usage: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the part of a record that `used` reads; one in no known shape as it is, for a later version."""
    shape = next((shape for shape in _SHAPES if shape.mark in usage), None) if usage else None
    if shape is None or usage is None:
        return usage
    return _part(usage, {shape.mark, *shape[2:12]})


def _part(record: dict[str, Any], names: set[str]) -> dict[str, Any]:
    """Return the keys of a record that are among the names, which have a dot for each level."""
    kept: dict[str, Any] = {}
    for key, value in record.items():
        below = {name.removeprefix(f"{key}.") for name in names if name.startswith(f"{key}.")}
        if below and isinstance(value, dict):
            kept[key] = _part(value, below)
        elif key in names:
            kept[key] = value
    return kept


def used(usage: dict[str, Any] | None) -> TokenUse | None:
    """Return what a record of usage says; None if it is in no known shape, or says nothing."""
    if not usage:
        return None
    shape = next((shape for shape in _SHAPES if shape.mark in usage), None)
    if shape is None:
        return None
    tokens = _tokens(usage, shape)
    cost = _money(usage, shape.cost)
    if cost is None and (cents := _money(usage, shape.cents)) is not None:
        cost = cents / 100
    return TokenUse(tokens, shape.tool, cost) if any(tokens) else None


def is_addition(usage: dict[str, Any] | None) -> bool:
    """Whether a record only says how much longer an answer became since its first record."""
    return usage is not None and usage.keys() == {"output_tokens"}


def _tokens(usage: dict[str, Any], shape: _Shape) -> Tokens:
    sent, output, read, write, write_1h, reasoning = (_number(usage, name) for name in shape[2:8])
    # What is read from the cache cannot be part of an input that is smaller.
    if shape.holds_cached and read <= sent:
        sent -= min(sent, read + write)
    sent += _number(usage, shape.more_input)
    total = _number(usage, shape.total)
    if not shape.holds_reasoning and (not total or total != _number(usage, shape.input) + output):
        output += reasoning
    return Tokens(sent, output, read, max(0, write - write_1h), write_1h, min(reasoning, output))


def _value(usage: dict[str, Any], name: str) -> Any:
    value: Any = usage
    for key in name.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _number(usage: dict[str, Any], name: str) -> int:
    return counted(_value(usage, name)) or 0 if name else 0


def _money(usage: dict[str, Any], name: str) -> float | None:
    """Return an amount; None if there is none, or if it is zero, which tools write for models they do not know."""
    value = _value(usage, name) if name else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e6 else None
