"""Costs: the records of every tool, the price table, and the sums."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cortext.errors import ConfigError, NotFound, UsageError
from cortext.index.activity import ModelCall, calls_in
from cortext.index.sessions import Row
from cortext.model import clock
from cortext.model.message import ASSISTANT, Message
from cortext.model.tokens import CALL, Tokens, read_of, used
from cortext.services.cost.carrying import Carrying, sentence
from cortext.services.cost.prices import TABLE, Prices, canonical, money
from cortext.services.cost.report import KINDS, CallPrice, report
from cortext.testing.table import every_row

# What each tool records, and what it means: (tokens, tool, recorded cost).
RECORDS: tuple[tuple[dict[str, Any], Tokens, str, float | None], ...] = (
    (
        {
            "input_tokens": 3, "output_tokens": 50, "cache_read_input_tokens": 900, "cache_creation_input_tokens": 70,
            "cache_creation": {"ephemeral_5m_input_tokens": 50, "ephemeral_1h_input_tokens": 20},
        },
        Tokens(3, 50, 900, 50, 20), "claude", None,
    ),
    (
        {
            "input_tokens": 1000, "cached_input_tokens": 600, "output_tokens": 80, "reasoning_output_tokens": 30,
            "total_tokens": 1080,
        },
        Tokens(400, 80, 600, reasoning=30), "codex", None,
    ),
    (
        {"input_tokens": 1000, "cached_input_tokens": 600, "cache_write_input_tokens": 100, "output_tokens": 80},
        Tokens(300, 80, 600, 100), "codex", None,
    ),
    (
        {"input": 1000, "output": 80, "cached": 600, "thoughts": 30, "tool": 5, "total": 1115},
        Tokens(405, 110, 600, reasoning=30), "gemini", None,
    ),
    (
        {"promptTokenCount": 100, "candidatesTokenCount": 30, "thoughtsTokenCount": 10, "totalTokenCount": 140},
        Tokens(100, 40, reasoning=10), "", None,
    ),
    (  # the total shows that the candidates include the thoughts
        {"promptTokenCount": 100, "candidatesTokenCount": 30, "thoughtsTokenCount": 10, "totalTokenCount": 130},
        Tokens(100, 30, reasoning=10), "", None,
    ),
    (
        {"input": 10, "output": 20, "reasoning": 5, "cache": {"read": 100, "write": 7}},
        Tokens(10, 25, 100, 7, reasoning=5), "opencode", None,
    ),
    ({"input": 0, "output": 0, "cache": {"read": 100}, "cost": 0.5}, Tokens(cache_read=100), "opencode", 0.5),
    (
        {"input": 10, "output": 20, "cacheRead": 3, "cacheWrite": 4, "totalTokens": 37, "cost": {"total": 0.25}},
        Tokens(10, 20, 3, 4), "pi", 0.25,
    ),
    ({"inputOther": 10, "output": 5, "inputCacheRead": 2, "inputCacheCreation": 1}, Tokens(10, 5, 2, 1), "kimi", None),
    (
        {"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}, "cost_cents": 2},
        Tokens(6, 5, 4), "", 0.02,
    ),
    ({"inputTokens": 10, "outputTokens": 5, "cacheReadTokens": 2}, Tokens(8, 5, 2), "", None),
    (  # less input than was read from the cache: that cannot be part of it
        {"inputTokens": 10, "outputTokens": 5, "cacheReadTokens": 20}, Tokens(10, 5, 20), "", None,
    ),
    (
        {"inputTokens": 9, "outputTokens": 5, "cacheReadInputTokens": 7, "cacheCreationInputTokens": 3},
        Tokens(9, 5, 7, 3), "amp", None,
    ),
    ({"input_tokens": 10, "output_tokens": 5}, Tokens(10, 5), "", None),
)  # fmt: skip


@pytest.mark.req("COST-01")
@every_row("number", range(len(RECORDS)))
def test_the_records_of_every_tool_are_understood(number: int) -> None:
    record, tokens, tool, cost = RECORDS[number]
    assert used(record) == (tokens, tool, cost)
    kept = read_of({**record, "service_tier": "standard", "iterations": [{"input_tokens": 3}]})
    assert used(kept) == (tokens, tool, cost)
    assert kept is not None and not {"service_tier", "iterations"} & kept.keys(), "only what is read is stored"


@pytest.mark.parametrize(
    "record", [None, {}, {"x": 1}, {"input_tokens": "many", "output_tokens": None}, {"input": -5, "output": 2**40}]
)
def test_a_record_that_says_nothing_is_no_call(record: dict[str, Any] | None) -> None:
    assert used(record) is None


@pytest.mark.req("COST-01")
def test_every_price_has_a_vendor_a_source_and_a_day() -> None:
    prices = Prices()
    table = json.loads(Path(TABLE).read_text(encoding="utf-8"))
    names = [name for vendor in table["vendors"].values() for name in vendor["models"]]
    assert len(names) == len({canonical(name) for name in names}) > 80
    days = {price.as_of for name in names if (price := prices.of(name))}
    assert prices.date == max(days) and all(clock.normalise(f"{day}T00:00:00Z") for day in days)
    for source in prices.sources:
        read_on_page = source.vendor == "Anthropic"
        assert source.source.startswith("https://") and source.as_of and bool(source.recorded_by) is not read_on_page
    for name in (*names, *table["aliases"], *table["assumed"].values()):
        price = prices.of(name)
        assert price is not None and 0 < price.input <= price.output, name
        assert (price.cache_read or 0) <= price.input, name


@pytest.mark.parametrize(
    "name",
    [
        "claude-sonnet-4-5-20250929", "anthropic/claude-sonnet-4.5", "claude-sonnet-4-5[1m]",
        "claude-sonnet-4-5@20250929",
        "us.anthropic.claude-sonnet-4-5-20250929-v1:0", "openrouter/anthropic/claude-sonnet-4.5:thinking",
    ],
)  # fmt: skip
def test_a_model_has_its_price_under_every_spelling(name: str) -> None:
    assert canonical(name) == "claude-sonnet-4-5"
    assert Prices().cost(name, Tokens(1_000, 2_000, 10_000, 400, 200)) == pytest.approx(
        (1_000 * 3 + 2_000 * 15 + 10_000 * 0.3 + 400 * 3.75 + 200 * 6) / 1e6
    )


@pytest.mark.req("COST-01")
def test_an_unknown_model_has_no_price_rather_than_none_to_pay() -> None:
    prices = Prices()
    assert prices.cost("llama3:8b", Tokens(10, 10)) is None and prices.cost("", Tokens(10, 10)) is None
    amounts = (0, 0.00001, 0.0001, 0.0042, 0.0994, 0.0999, 1234.5)
    shown = ["$0.00", "<$0.0001", "$0.0001", "$0.0042", "$0.099", "$0.10", "$1,234.50"]
    assert [money(amount) for amount in amounts] == shown
    assert money(None) == "unknown" and money(1.5, unpriced=2) == "$1.50 + unknown"
    found = report([_priced("llama3:8b", None), _priced("claude-opus-4-5", 1.5)], "tool")
    assert found.as_dict()["total"]["cost"] == 1.5 and found.as_dict()["total"]["unpriced_calls"] == 1
    assert found.unpriced == {"llama3:8b": 1}
    assert report([_priced("llama3:8b", None)], "model").as_dict()["entries"][0]["cost"] is None


def test_a_long_prompt_is_priced_as_a_whole_at_the_higher_price() -> None:
    prices = Prices()
    short = prices.cost("claude-sonnet-4-5", Tokens(input=1, cache_read=199_999))
    long = prices.cost("claude-sonnet-4-5", Tokens(input=1, cache_read=200_000))
    assert short == pytest.approx((3 + 199_999 * 0.3) / 1e6) and long == pytest.approx((6 + 200_000 * 0.6) / 1e6)


def test_the_price_is_that_of_the_day_of_the_call() -> None:
    prices, tokens = Prices(), Tokens(cache_read=1_000_000)
    before, after = (clock.to_epoch(f"2026-10-{day}T12:00:00Z") or 0 for day in ("06", "07"))
    assert prices.cost("claude-sonnet-5-5", tokens, before) == pytest.approx(0.2)
    assert prices.cost("claude-sonnet-5-5", tokens, after) == prices.cost("claude-sonnet-5-5", tokens)
    assert prices.cost("claude-sonnet-5-5", tokens) == pytest.approx(0.1)


def test_a_price_that_changes_later_does_not_count_before_that_day() -> None:
    prices, tokens = Prices(), Tokens(input=1_000_000)
    first, promoted, later = (
        clock.to_epoch(f"{day}T12:00:00Z") or 0 for day in ("2026-08-01", "2026-09-01", "2027-01-01")
    )
    assert prices.cost("gemini-3.6-flash", tokens, first) == prices.cost("gemini-3.6-flash", tokens, later) == 1.5
    assert prices.cost("gemini-3.6-flash", tokens, promoted) == 0.75
    short = Tokens(input=100_000)  # there is a higher price for long prompts
    assert prices.cost("gpt-5.6-luna", short, first) == pytest.approx(0.02)
    assert prices.cost("gpt-5.6-luna", short, clock.to_epoch("2026-07-29T12:00:00Z") or 0) == pytest.approx(0.1)


@pytest.mark.req("COST-01")
def test_the_days_of_prices_are_those_of_the_models_that_occur(tmp_path: Path) -> None:
    own = tmp_path / "prices.json"
    own.write_text('{"models": {"my-model": {"input": 2, "output": 4}}}')
    prices = Prices(str(own))
    assert prices.days(["claude-opus-4-5", "my-model", "llama3"]) == "2026-11-05"
    assert prices.days(["claude-opus-4-5", "gpt-5"]) == "2026-08-08 to 2026-11-05"
    assert prices.days(["gpt-6.1-terra"]) == "2026-10-26" and prices.days(["my-model", "llama3"]) == ""


def test_an_alias_of_ones_own_counts_as_a_price_of_ones_own(tmp_path: Path) -> None:
    own = tmp_path / "prices.json"
    own.write_text(
        '{"models": {"mine": {"input": 2, "output": 4}}, "aliases": {"gpt-5": "mine", "team-model": "gpt-5-mini"}}'
    )
    prices, tokens = Prices(str(own)), Tokens(input=1_000_000)
    assert prices.cost("gpt-5", tokens, recorded=9.0) == prices.cost("mine", tokens) == 2
    assert prices.cost("team-model", tokens, recorded=9.0) == 0.25 and prices.cost("gpt-5-mini", tokens) == 0.25
    assert prices.is_own("openai/gpt-5-2025-08-07") and not prices.is_own("gpt-5-mini")


def test_a_price_of_ones_own_replaces_the_table_and_the_recorded_cost(tmp_path: Path) -> None:
    own = tmp_path / "prices.json"
    own.write_text('{"models": {"my-model": {"input": 2, "output": 4}, "gpt-5": {"input": 1, "output": 1}}}')
    prices = Prices(str(own))
    assert prices.cost("my-model", Tokens(1_000_000, 1_000_000)) == pytest.approx(6)
    assert prices.cost("my-model", Tokens(1_000_000), recorded=9.0) == pytest.approx(2)
    assert prices.cost("gpt-5", Tokens(output=1_000_000)) == pytest.approx(1)
    assert Prices().cost("gpt-5", Tokens(output=1_000_000), recorded=9.0) == 9.0


@pytest.mark.parametrize(
    "text",
    ["[]", "{", '{"models": {"m": {"input": -1, "output": 1}}}', '{"models": {"m": {"inputs": 1}}}',
     '{"currency": "EUR", "models": {}}', '{"models": {"m": {"from": "soon", "input": 1, "output": 1}}}'],
)  # fmt: skip
def test_an_invalid_price_file_is_refused(tmp_path: Path, text: str) -> None:
    own = tmp_path / "prices.json"
    own.write_text(text)
    with pytest.raises(ConfigError, match="prices in"):
        Prices(str(own))
    with pytest.raises(NotFound, match="cannot read"):
        Prices(str(tmp_path / "missing.json"))


def _row(name: str = "one", **fields: Any) -> Row:
    values = dict.fromkeys(Row._fields, "") | {"message_count": 1, "token_count": 1}
    return Row(**{**values, "id": name, "root": "/r", "kind": "home", "project": "/p", **fields})


def _priced(model: str, cost: float | None, at: str = "2026-11-02T10:20:00Z", tool: str = "claude") -> CallPrice:
    call = ModelCall(int(clock.to_epoch(at) or 0), model, tool, Tokens(10, 5), None)
    return CallPrice(_row(), call, tool, cost)


@pytest.mark.req("COST-01")
def test_a_window_begins_with_the_full_hour_of_the_first_call_and_lasts_five() -> None:
    times = ("10:20", "14:59", "15:00", "15:30", "23:10")
    calls = [_priced("m", 1.0, f"2026-11-02T{time}:00Z") for time in reversed(times)]
    calls.append(_priced("m", 1.0, "2026-11-02T12:00:00Z", tool="codex"))
    windows = [(entry.name, entry.calls, entry.end - entry.start) for entry in report(calls, "window").entries]
    assert windows == [
        ("2026-11-02 10:00 claude", 2, 18_000),
        ("2026-11-02 12:00 codex", 1, 18_000),
        ("2026-11-02 15:00 claude", 2, 18_000),
        ("2026-11-02 23:00 claude", 1, 18_000),
    ]


def _limited(at: str, window_end: str = "", week_end: str = "") -> CallPrice:
    priced = _priced("m", 1.0, f"2026-11-{at}:00Z", tool="codex")
    ends = (int(clock.to_epoch(f"2026-11-{end}:00Z") or 0) if end else 0 for end in (window_end, week_end))
    window, week = ends
    return priced._replace(call=priced.call._replace(window_end=window, week_end=week))


@pytest.mark.req("COST-01")
def test_windows_are_those_that_the_tool_recorded() -> None:
    calls = [
        _limited("02T10:20", week_end="09T08:30"),  # the window is recorded only after the first call
        _limited("02T10:40", "02T15:17", "09T08:31"),
        _limited("02T15:10", "02T15:17", "09T08:30"),
        _limited("02T15:20", "02T20:20", "09T08:30"),
        _limited("09T08:29"),
        _limited("09T08:31"),
        _limited("12T00:00", week_end="16T08:30"),
    ]
    windows = [(entry.name, entry.calls) for entry in report(calls, "window").entries]
    assert windows == [
        ("2026-11-02 10:17 codex", 3),
        ("2026-11-02 15:20 codex", 1),
        ("2026-11-09 08:00 codex", 2),
        ("2026-11-12 00:00 codex", 1),
    ]
    weeks = [(entry.name, entry.calls) for entry in report(calls, "week-window").entries]
    assert weeks == [("2026-11-02 08:30 codex", 5), ("2026-11-09 08:30 codex", 2)]


def test_a_weekly_window_that_is_not_recorded_begins_where_the_user_says() -> None:
    calls = [_priced("m", 1.0, f"2026-11-{at}:00Z") for at in ("05T08:59", "05T09:00", "12T08:59", "30T00:00")]
    start = int(clock.to_epoch("2026-11-12T09:00:00Z") or 0)
    weeks = [(entry.name, entry.calls) for entry in report(calls, "week-window", week_from=start).entries]
    assert weeks == [("2026-10-29 09:00 claude", 1), ("2026-11-05 09:00 claude", 2), ("2026-11-26 09:00 claude", 1)]
    mondays = [entry.name for entry in report(calls, "week-window").entries]
    assert mondays == ["2026-11-02 00:00 claude", "2026-11-09 00:00 claude", "2026-11-30 00:00 claude"]


def test_a_week_begins_on_monday_and_every_kind_has_the_same_total() -> None:
    calls = [_priced("m", 1.0, f"2026-11-{day}T00:00:00Z") for day in ("01", "02", "08", "09")]  # 1 November: a Sunday
    assert [(entry.name, entry.calls) for entry in report(calls, "week").entries] == [
        ("2026-10-26", 1), ("2026-11-02", 2), ("2026-11-09", 1),
    ]  # fmt: skip
    for kind in KINDS:
        found = report(calls, kind)
        assert sum(entry.cost or 0 for entry in found.entries) == found.total.cost == 4.0, kind
    with pytest.raises(UsageError, match="unknown kind"):
        report(calls, "moon")


def _said(name: str, usage: dict[str, Any], call: str = "") -> Message:
    return Message(role=ASSISTANT, id=name, model="m", usage=usage, extra={CALL: call} if call else None)


def test_an_answer_in_several_records_is_one_call() -> None:
    usage = {"input_tokens": 3, "output_tokens": 5, "cache_creation_input_tokens": 0}
    messages = [_said("a", usage, "msg_1:req_1"), _said("b", {"output_tokens": 20}, "msg_1:req_1")]
    messages += [_said("c", usage, "msg_1:req_1"), _said("d", usage)]
    assert [call.tokens for call in calls_in(messages).values()] == [Tokens(3, 25), Tokens(3, 5)]


def test_an_answer_that_grows_between_the_records_of_another_is_counted_in_full() -> None:
    first, grown = ({"input_tokens": 3, "output_tokens": n, "cache_creation_input_tokens": 0} for n in (1, 400))
    messages = [_said("a", first, "msg_1:req"), _said("b", first, "msg_2:req"), _said("c", grown, "msg_1:req")]
    messages.append(_said("d", {"output_tokens": 10}, "msg_1:req"))
    assert [call.tokens for call in calls_in(messages).values()] == [Tokens(3, 410), Tokens(3, 1)]


def test_a_receipt_names_the_target_even_if_its_price_is_unknown() -> None:
    target, other = Carrying("opencode", "llama3", None), Carrying("claude", "claude-opus-4-5", 0.49)
    assert sentence([target, other]) == (
        "carrying this costs an unknown amount in opencode (llama3), about $0.49 in claude (claude-opus-4-5)"
    )
    assert sentence([Carrying("aider", "", None)]) == "carrying this costs an unknown amount in aider (unknown model)"
    assert sentence([other]) == "carrying this costs about $0.49 in claude (claude-opus-4-5)"
    cheap = Carrying("codex", "gpt-5", 0.004)
    assert sentence([cheap, other]) == (
        "carrying this costs about $0.004 in codex (gpt-5), $0.49 in claude (claude-opus-4-5)"
    )
    assert sentence([cheap]) == sentence([target, cheap]) == sentence([]) == "", "less than a cent"
