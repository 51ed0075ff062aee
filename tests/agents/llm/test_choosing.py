"""Which model is used if none is named, what a name means, and what never reaches any of them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cortext.agents.choosing import SETUP_GUIDE, MaskingModel, choose_model
from cortext.agents.llm import anthropic_api, gemini_api, ollama_api, openai_api
from cortext.agents.llm.base import Event, Request
from cortext.agents.llm.provider import DEFAULT, context_of
from cortext.config.load import load
from cortext.distribution import install_command
from cortext.errors import ConfigError, ModelUnreachable, NoModel, UsageError
from cortext.io.http import is_loopback
from cortext.model.answer import AnswerNote, AnswerText, Done
from cortext.model.message import ASSISTANT, TOOL_RESULT, USER, Message, Part
from cortext.testing.table import every_row
from cortext.wiring.stores import Stores
from tests.support.model_server import ModelServer

SECRET = "sk-ant-api03-" + "a1B2" * 24
OTHER = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine with nothing on it: no programs, no Ollama, no keys."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:9")
    return tmp_path


def install(folder: Path, name: str) -> None:
    path = folder / "bin" / name
    path.write_text("#!/bin/sh\n", encoding="utf-8")
    path.chmod(0o755)


def chosen(name: str = "") -> str:
    return choose_model(Stores().settings, Stores().folder, name).name


@pytest.mark.req("MODEL-01")
def test_the_first_usable_model_in_documented_order(
    bare: Path, monkeypatch: pytest.MonkeyPatch, server: ModelServer
) -> None:
    """Built up from the last choice to the first: each newcomer takes precedence."""
    found = []
    install(bare, "codex")
    found.append(chosen())
    install(bare, "claude")
    found.append(chosen())
    monkeypatch.setenv("OLLAMA_HOST", server.url)
    found.append(chosen())
    monkeypatch.setenv("GEMINI_API_KEY", "k")
    found.append(chosen())
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    found.append(chosen())
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    found.append(chosen())

    assert [name.partition("/")[0] for name in found] == ["cli", "cli", "ollama", "gemini", "openai", "anthropic"]
    assert found[:3] == ["cli/codex", "cli/claude", "ollama/test-model:latest"], "an embedding model cannot chat"


@pytest.mark.req("MODEL-01")
def test_without_any_model_the_error_names_three_ways() -> None:
    with pytest.raises(NoModel) as caught:
        chosen()

    assert (
        caught.value.message == SETUP_GUIDE.format(command=install_command("models")) and caught.value.exit_status == 8
    )
    for word in (
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "GEMINI_API_KEY",
        "ollama pull",
        "Claude Code",
        "CORTEXT_MODEL",
    ):
        assert word in SETUP_GUIDE
    assert max(map(len, SETUP_GUIDE.splitlines())) <= 120


@pytest.mark.req("MODEL-01")
def test_an_option_precedes_a_variable_and_a_setting(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    settings = bare / "config.toml"
    settings.write_text('[model]\nname = "openai/from-the-file"\n', encoding="utf-8")
    monkeypatch.setenv("CORTEXT_CONFIG", str(settings))
    by_file = chosen()
    monkeypatch.setenv("CORTEXT_MODEL", "openai/from-the-variable")

    assert by_file == "openai/from-the-file"
    assert chosen() == "openai/from-the-variable"
    assert chosen("openai/org/from-the-option") == "openai/org/from-the-option"


@pytest.mark.req("MODEL-01")
def test_a_provider_alone_means_its_default_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    usual = chosen("anthropic")
    monkeypatch.setenv("ANTHROPIC_MODEL", "another")

    assert usual.startswith("anthropic/claude-") and chosen("anthropic") == "anthropic/another"
    with pytest.raises(NoModel) as caught:
        chosen("gemini")
    assert "GEMINI_API_KEY" in caught.value.hint


def test_another_endpoint_needs_no_key_and_has_its_own_model(
    monkeypatch: pytest.MonkeyPatch, server: ModelServer
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")

    assert chosen() == "openai/test-model"
    *_, last = choose_model(Stores().settings, Stores().folder).stream(
        Request(messages=[Message(role=USER, content="Hi")])
    )
    assert isinstance(last, Done) and server.turns[-1].body["model"] == "test-model"


@pytest.mark.req("MODEL-01")
def test_a_key_without_its_library(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another model is used if there is one; otherwise the error says how to install the library."""
    import importlib.util

    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "anthropic" else found(name))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")

    for name in ("", "anthropic", "anthropic/claude-x"):
        with pytest.raises(NoModel) as caught:
            chosen(name)
        assert install_command("models") in caught.value.hint
    install(bare, "codex")
    assert chosen() == "cli/codex"


@pytest.mark.parametrize("provider", ["anthropic", "openai", "gemini"])
def test_a_missing_key_is_reported_before_anything_is_sent(provider: str) -> None:
    with pytest.raises(NoModel) as caught:
        chosen(f"{provider}/some-model")

    assert f"{provider.upper()}_API_KEY" in caught.value.hint


@pytest.mark.parametrize("name", ["gpt-4o", "nobody/x", "/", "claude"])
def test_an_unknown_name_lists_the_known_ones(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        chosen(name)

    assert "anthropic/…" in caught.value.hint and "cli/…" in caught.value.hint


def test_a_missing_or_unknown_program_is_an_error() -> None:
    with pytest.raises(NoModel) as caught:
        chosen("cli/claude")
    assert "npm install -g @anthropic-ai/claude-code" in caught.value.hint
    with pytest.raises(UsageError):
        chosen("cli/nobody")
    with pytest.raises(NoModel):
        chosen("cli")


@pytest.mark.req("SAFE-04")
def test_a_repository_cannot_choose_the_model(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model is the user's choice until the workspace is trusted."""
    workspace = bare / "theirs"
    (workspace / ".workspace").mkdir(parents=True)
    (workspace / ".workspace" / "config.toml").write_text(
        '[model]\nname = "openai/theirs"\nmask = false\nretries = 9\n', encoding="utf-8"
    )
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    stores = Stores(str(workspace))

    assert choose_model(stores.settings, stores.folder).name.startswith("anthropic/")
    assert set(stores.settings.ignored) == {"model.name", "model.mask", "model.retries"}


def test_an_invalid_setting_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORTEXT_MODEL_RETRIES", "many")
    with pytest.raises(ConfigError):
        load()


class Listener:
    """A model that only records requests."""

    name, context, takes_tools = "listener/x", 100, True

    def __init__(self) -> None:
        self.heard: list[Request] = []
        self.closed = 0

    def stream(self, request: Request) -> Iterator[Event]:
        self.heard.append(request)
        return self._answer()

    def _answer(self) -> Iterator[Event]:
        try:
            yield AnswerText("yes")
            yield Done()
        finally:
            self.closed += 1

    def cancel(self) -> None: ...

    def warm(self) -> None: ...


@pytest.mark.req("SAFE-02")
def test_secrets_are_masked_before_sending_and_reported_once() -> None:
    listener = Listener()
    masked = MaskingModel(listener)
    talk = [
        Message(role=USER, content=f"my key is {SECRET}", id="1"),
        Message(role=ASSISTANT, content="thanks", id="2"),
        Message(role=USER, parts=[Part(TOOL_RESULT, call_id="c", output=f"token={OTHER}")], id="3"),
    ]
    request = Request(messages=talk, system=f"use {OTHER}")

    first = list(masked.stream(request))
    talk.append(Message(role=USER, content=f"again {SECRET}", id="4"))
    second = list(masked.stream(request))

    assert all(SECRET not in str(heard) and OTHER not in str(heard) for heard in listener.heard)
    assert "[masked anthropic-key " in listener.heard[0].messages[0].content
    assert SECRET in talk[0].content, "the stored message is unchanged"
    (note,) = [event for event in first if isinstance(event, AnswerNote)]
    assert "anthropic-key" in note.text and "github" in note.text and SECRET not in note.text
    assert [type(event) for event in second] == [AnswerText, Done], "the same secret is reported once"
    assert listener.heard[1].messages[1] is talk[1], "a message without secrets is sent unchanged"


def test_closing_a_masked_stream_closes_the_model() -> None:
    listener = Listener()
    events = MaskingModel(listener).stream(Request(messages=[Message(role=USER, content=SECRET)]))
    assert isinstance(next(events), AnswerNote)
    assert next(events) == AnswerText("yes")

    events.close()  # type: ignore[attr-defined]

    assert listener.closed == 1


def test_the_user_can_switch_masking_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("CORTEXT_MODEL_MASK", "no")

    assert not isinstance(choose_model(Stores().settings, Stores().folder), MaskingModel)


@every_row(
    ("given", "address"),
    [
        ("", "http://127.0.0.1:11434"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:8080", "http://127.0.0.1:8080"),
        (":8080", "http://127.0.0.1:8080"),
        ("box", "http://box:11434"),
        ("https://box/", "https://box:443"),
        ("http://box:1234", "http://box:1234"),
        ("[::1]:1234", "http://[::1]:1234"),
    ],
)
def test_ollama_host_becomes_an_address(given: str, address: str) -> None:
    assert ollama_api.address({"OLLAMA_HOST": given}) == address


def test_sizes_and_loopback_addresses() -> None:
    assert context_of("gpt-4o-mini") == 128_000 and context_of("gpt-4") == 8_192
    assert context_of("library/llama3.1:8b") == 131_072 and context_of("claude-x") == 200_000
    assert context_of("nobody-knows-it") == DEFAULT
    assert [is_loopback(url) for url in ("http://127.0.0.1:1", "http://localhost", "http://[::1]:2/x")] == [True] * 3
    assert not any(is_loopback(url) for url in ("https://api.openai.com", "http://127.example.com", "http://[bad"))


def test_nothing_heavy_is_imported_to_choose(monkeypatch: pytest.MonkeyPatch) -> None:
    """The libraries take up to two seconds to import: that waits until the user is typing."""
    import subprocess
    import sys

    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    code = (
        "import sys; from cortext.config.load import load; from cortext.agents.choosing import choose_model;"
        "choose_model(load(), '.', 'anthropic/x');"
        "print([name for name in ('anthropic', 'openai', 'httpx', 'httpx2', 'pydantic') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8", check=True, env=dict(os.environ)
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.req("MODEL-01")
def test_an_endpoint_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    with pytest.raises(NoModel):
        chosen()
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("CORTEXT_MODEL_RETRIES", "0")
    model = choose_model(Stores().settings, Stores().folder, "")
    with pytest.raises(ModelUnreachable) as raised:
        list(model.stream(Request(messages=[Message(role=USER, content="Hello")])))
    assert "127.0.0.1:9" in f"{raised.value.message} {raised.value.hint}"


@pytest.mark.req("MODEL-01")
def test_the_docs_name_the_default_models() -> None:
    docs = Path(__file__).parents[3] / "docs"
    text = (docs / "models.md").read_text(encoding="utf-8")
    for module in (anthropic_api, openai_api, gemini_api):
        assert f"`{module.DEFAULT}`" in text
    shown = re.findall(r"(?:anthropic|openai|gemini)/([a-z0-9.-]+)", text + (docs / "agents.md").read_text("utf-8"))
    assert shown and set(shown) <= {anthropic_api.DEFAULT, openai_api.DEFAULT, gemini_api.DEFAULT}
