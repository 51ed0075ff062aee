"""`cortext cost` from start to end: transcripts of tools, an import, forks, an import again, and a resume."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cortext.api import Library
from cortext.model.message import ASSISTANT, Message
from cortext.model.session import AgentConfig, Origin, Session
from cortext.wiring.stores import Stores
from tests.support.cli import Ran, cortext

MODEL = "claude-opus-4-5-20251101"
USAGE = {
    "input_tokens": 10,
    "cache_creation_input_tokens": 3_000,
    "cache_read_input_tokens": 20_000,
    "cache_creation": {"ephemeral_5m_input_tokens": 2_000, "ephemeral_1h_input_tokens": 1_000},
    "output_tokens": 1,
}
# 10 input, 400 output, 20,000 read, 2,000 written for five minutes and 1,000 for an hour, per million tokens.
PRICE = (10 * 5 + 400 * 25 + 20_000 * 0.5 + 2_000 * 6.25 + 1_000 * 10) / 1e6


class Desk:
    """A HOME in which Claude Code was used."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.project = home / "project"
        self.project.mkdir(parents=True)

    def cortext(self, *words: str) -> Ran:
        """Run a command that must succeed."""
        done = cortext(*words, cwd=self.project, env={"HOME": str(self.home)})
        assert done.code == 0, (words, done.out, done.err)
        return done

    def cost(self, *words: str) -> Any:
        """Return the report as JSON."""
        return self.cortext("cost", "--json", *words).json

    def chat(self, key: str, *answers: str, day: str = "2026-11-02", model: str = MODEL) -> None:
        """Write a transcript: for each answer a question, and the answer in two records that repeat its usage."""
        records: list[dict[str, Any]] = []
        for number, answer in enumerate(answers):
            stamp = f"{day}T10:{number:02}:00.000Z"
            common = {"sessionId": key, "cwd": str(self.project), "timestamp": stamp}
            asked = {
                "type": "user",
                "uuid": f"{key}-{answer}-q",
                "message": {"role": "user", "content": f"Ask {answer}"},
            }
            records.append({**common, **asked})
            for part, output in enumerate((1, 400)):
                body = {
                    "id": f"msg_{answer}", "role": "assistant", "model": model,
                    "content": [{"type": "text", "text": f"{answer} part {part}"}],
                    "usage": {**USAGE, "output_tokens": output},
                }  # fmt: skip
                name = f"{key}-{answer}-{part}"
                records.append(
                    {**common, "type": "assistant", "uuid": name, "requestId": f"req_{answer}", "message": body}
                )
        folder = self.home / ".claude" / "projects" / str(self.project).replace("/", "-")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{key}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")


FIRST, FORK, OTHER = (f"{number}" * 8 + "-1111-4111-8111-" + f"{number}" * 12 for number in (1, 2, 3))


@pytest.mark.req("COST-01")
def test_every_call_is_counted_once_and_survives_another_import(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.chat(FIRST, "a", "b")
    desk.cortext("import")
    total = desk.cost()["total"]
    assert (total["calls"], total["input"], total["output"]) == (2, 20, 800)
    assert (total["cache_read"], total["cache_write"], total["cache_write_1h"]) == (40_000, 4_000, 2_000)
    assert total["cost"] == pytest.approx(2 * PRICE)

    # A fork copies the records under new ids of its own; what it adds is new.
    desk.chat(FORK, "a", "b", "c", day="2026-11-03")
    desk.chat(OTHER, "d", day="2026-11-09", model="a-model-of-ones-own")
    desk.cortext("import")
    desk.cortext("import")
    report = desk.cost()
    assert report["total"]["calls"] == 4 and report["total"]["cost"] == pytest.approx(3 * PRICE)
    days = {entry["name"]: (entry["calls"], entry["cost"]) for entry in report["entries"]}
    assert days["2026-11-02"] == (2, pytest.approx(2 * PRICE)) and days["2026-11-03"] == (1, pytest.approx(PRICE))
    assert days["2026-11-09"] == (1, None), "an unknown price is null, not 0"
    assert report["unpriced_models"] == [{"model": "a-model-of-ones-own", "calls": 1}]
    assert report["prices"]["date"] and all(source["as_of"] for source in report["prices"]["sources"])

    sessions = {entry["session"]: entry["calls"] for entry in desk.cost("--by", "session")["entries"]}
    assert sessions == {f"claude-{FIRST}": 2, f"claude-{FORK}": 1, f"claude-{OTHER}": 1}
    fork = desk.cortext("show", f"claude-{FORK}").out
    part, whole = (f"${number * PRICE:.2g}" if number == 2 else f"${number * PRICE:.2f}" for number in (2, 3))
    assert f"{whole} for 70,230 tokens in 3 calls, of which {part} in the conversation it was copied from" in fork
    assert "of which" not in desk.cortext("show", f"claude-{FIRST}").out
    assert desk.cost("--since", "2026-11-03", "--until", "2026-11-05")["total"]["calls"] == 1
    assert [entry["name"] for entry in desk.cost("--by", "tool")["entries"]] == ["claude"]
    assert [entry["name"] for entry in desk.cost("--by", "project")["entries"]] == [str(desk.project)]
    assert desk.cost("--model", MODEL)["total"]["calls"] == 3

    prices = tmp_path / "prices.json"
    prices.write_text('{"models": {"a-model-of-ones-own": {"input": 1, "output": 1000}}}', encoding="utf-8")
    priced = desk.cost("--prices", str(prices), "--by", "model")
    assert priced["unpriced_models"] == [] and priced["total"]["unpriced_calls"] == 0
    shown = desk.cortext("cost")
    assert "unknown" in shown.out and "a-model-of-ones-own (1 call)" in shown.err and "list prices of" in shown.err


@pytest.mark.req("COST-01")
def test_the_cost_is_in_lists_in_show_and_in_the_receipt_of_a_resume(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.chat(FIRST, "a")
    desk.chat(OTHER, "d", day="2026-11-01", model="a-model-of-ones-own")
    desk.cortext("import")
    lines = desk.cortext("list", "--columns", "id,calls,cost").out.splitlines()
    assert sorted(line.split() for line in lines[1:]) == [
        [f"claude-{FIRST}", "1", f"${PRICE:.2g}"],
        [f"claude-{OTHER}", "1", "unknown"],
    ]
    assert f"${PRICE:.2g} for 23,410 tokens in 1 call" in desk.cortext("show", f"claude-{FIRST}").out
    planned = desk.cortext(
        "resume", f"claude-{FIRST}", "--ai", "codex", "--model", "gpt-5.5-pro", "--dry-run", "--json"
    ).json
    assert (
        "carrying this costs about" in planned["receipt"]["price"]
        and "in codex (gpt-5.5-pro)" in planned["receipt"]["price"]
    )
    assert f"in claude ({MODEL})" in planned["receipt"]["price"], "the model that was used there last"


CLAUDE = {"input_tokens": 3, "output_tokens": 5, "cache_creation_input_tokens": 0}
CODEX = {"input_tokens": 100, "cached_input_tokens": 60, "output_tokens": 8}


def _answer(at: str, usage: dict[str, Any], model: str = "gpt-5") -> Message:
    return Message(role=ASSISTANT, content="Done.", timestamp=f"2026-11-02T{at}:00Z", model=model, usage=usage)


def _cost(*words: str) -> Any:
    done = cortext("cost", "--json", *words)
    assert done.code == 0, done
    return done.json


@pytest.mark.req("COST-01")
def test_the_calls_of_one_tool_are_those_that_it_made_wherever_they_are() -> None:
    stores = Stores()
    home, spawn = stores.home_store().store, stores.spawn_store().store
    home.create(Session(id="both", origin=Origin(tool="claude")))
    home.append("both", _answer("10:00", CLAUDE, "claude-opus-4-5"), _answer("11:00", CODEX))
    spawn.create(Session(id="own"))
    spawn.append("own", _answer("12:00", {"input_tokens": 7, "output_tokens": 1}))
    by_tool = {entry["name"]: entry["calls"] for entry in _cost("--by", "tool")["entries"]}
    assert by_tool == {"claude": 1, "codex": 1, "aur": 1}
    for tool in by_tool:
        assert _cost("--tool", tool)["total"]["calls"] == 1, tool
    assert _cost("--tool", "codex")["total"]["input"] == 40
    assert _cost("--tool", "codex,aur")["total"]["calls"] == 2


@pytest.mark.req("COST-01")
def test_a_five_hour_window_does_not_move_with_a_filter() -> None:
    home = Stores().home_store().store
    home.create(Session(id="early", origin=Origin(tool="claude")))
    home.append("early", _answer("10:20", CLAUDE), _answer("15:30", CLAUDE))
    home.create(Session(id="late", origin=Origin(tool="claude")))
    home.append("late", _answer("14:00", CLAUDE, "gpt-5-mini"))
    cortext("tag", "late", "wanted")
    both = [("2026-11-02 10:00 claude", 2), ("2026-11-02 15:00 claude", 1)]
    for words, expected in (
        ((), both),
        (("--since", "2026-11-02T12:00:00Z"), [(both[0][0], 1), both[1]]),
        (("--tag", "wanted"), [(both[0][0], 1)]),
        (("--model", "gpt-5-mini"), [(both[0][0], 1)]),
    ):
        entries = _cost("--by", "window", *words)["entries"]
        assert [(entry["name"], entry["calls"]) for entry in entries] == expected, words


@pytest.mark.req("COST-01")
def test_weekly_windows_are_those_that_are_billed() -> None:
    home = Stores().home_store().store
    home.create(Session(id="limited", origin=Origin(tool="codex")))
    limited = _answer("10:20", CODEX)
    limited.extra = {"limits": {"300": 1_793_634_000, "10080": 1_794_000_000, "odd": None}}
    home.append("limited", limited, _answer("11:00", CODEX))
    home.create(Session(id="other", origin=Origin(tool="claude")))
    home.append("other", _answer("10:20", CLAUDE))
    entries = _cost("--by", "week-window", "--week-from", "2026-10-29 10:30")["entries"]
    assert [(entry["name"], entry["calls"], entry["end"][:16]) for entry in entries] == [
        ("2026-10-29 10:30 claude", 1, "2026-11-05T10:30"),
        ("2026-10-30 21:20 codex", 2, "2026-11-06T21:20"),
    ]
    assert cortext("cost", "--week-from", "soon").code == 2


def _long_talk(name: str, tool: str, model: str, usage: dict[str, Any] | None = None) -> None:
    home = Stores().home_store().store
    home.create(Session(id=name, title=name, origin=Origin(tool=tool), agent_config=AgentConfig(model=model)))
    said = Message(role="user", content="Count the herons at every pond. " * 4_000)
    home.append(name, said, Message(role=ASSISTANT, content="None.", model="kimi-k3", usage=usage))


@pytest.mark.req("COST-01")
def test_a_receipt_has_the_price_of_the_model_that_was_used_there_last() -> None:
    _long_talk("first", "qwen", "qwen3.8-max")
    _long_talk("second", "copilot", "", {"inputTokens": 7, "outputTokens": 1})
    _long_talk("third", "opencode", "llama3")

    def price(tool: str) -> str:
        done = cortext("resume", "first", "--ai", tool, "--dry-run", "--json")
        assert done.code == 0, done
        return str(done.json["receipt"]["price"])

    assert "about $0." in price("qwen") and "in qwen (qwen3.8-max)" in price("qwen")
    assert "an unknown amount in opencode (llama3), about $" in price("opencode")
    assert "an unknown amount in copilot (unknown model)" in price("copilot"), "its session does not name the model"
    assert cortext("cost").code == 0  # reads the calls, which do
    assert "in copilot (kimi-k3)" in price("copilot")


@pytest.mark.req("COST-01")
def test_a_packet_has_a_price_too(home: Path) -> None:
    _long_talk("first", "qwen", "qwen3.8-max")
    printed = cortext("resume", "first", "--print", "--json").json["receipt"]
    assert printed["price"].startswith("carrying this costs about $") and "in qwen (qwen3.8-max)" in printed["price"]
    shown = cortext("resume", "first", "--print")
    assert "carrying this costs" in shown.err and "carrying this costs" not in shown.out
    packet = Library().resume_packet("first")
    assert packet.receipt.price == printed["price"]

    prices = home / "prices.json"
    prices.write_text('{"models": {"qwen3.8-max": {"input": 1000, "output": 1000}}}', encoding="utf-8")
    settings = home / ".config" / "cortext" / "config.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(f'[cost]\nprices = "{prices}"\n', encoding="utf-8")
    in_tool = cortext("resume", "--in-tool", "first")
    assert in_tool.code == 0 and "Note: carrying this costs about $" in in_tool.out, in_tool


def test_prices_in_the_settings_count_everywhere_and_a_bad_file_prevents_no_resume(home: Path) -> None:
    _long_talk("first", "qwen", "my-model", CLAUDE)
    prices = home / "prices.json"
    prices.write_text('{"models": {"my-model": {"input": 7, "output": 7}, "kimi-k3": {"input": 1e6, "output": 1e6}}}')
    settings = home / ".config" / "cortext" / "config.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text('[cost]\nprices = "~/prices.json"\n', encoding="utf-8")
    assert cortext("cost", "--json").json["total"]["cost"] == 8
    assert cortext("list", "--columns", "cost").out.split() == ["COST", "$8.00"]
    assert "$8.00 for 8 tokens in 1 call" in cortext("show", "first").out
    planned = cortext("resume", "first", "--ai", "qwen", "--dry-run", "--json").json
    assert "in qwen (my-model)" in planned["receipt"]["price"]

    prices.write_text("{", encoding="utf-8")
    planned = cortext("resume", "first", "--ai", "qwen", "--dry-run", "--json").json
    assert planned["receipt"]["price"].startswith("what carrying this costs is unknown: invalid prices in")
    assert "cost unknown: invalid prices in" in cortext("show", "first").out
    assert cortext("cost").code == 7


def test_bad_options_are_explained(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    assert "No tokens are recorded yet" in desk.cortext("cost").out
    for words, code, text in (
        (("list", "--columns", "id,nonsense"), 2, "unknown column 'nonsense'"),
        (("cost", "--since", "soon"), 2, "invalid --since value 'soon'"),
        (("cost", "--prices", "missing.json"), 1, "cannot read the prices"),
    ):
        done = cortext(*words, cwd=desk.project, env={"HOME": str(desk.home)})
        assert done.code == code and text in done.err, done
