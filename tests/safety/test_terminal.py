"""No text of a conversation controls the terminal that it is shown on; stored text is not changed.

`export` and `--json` are excluded on purpose: they are data for files and programs, verbatim. On a terminal, `--json`
has the same values, with control characters written as escapes.
"""

from __future__ import annotations

import json
import re
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortext.faces.cortext.main import run as main
from cortext.model.message import Message, Part
from cortext.model.session import Change, Session
from cortext.safety import terminal
from cortext.store.files.workspace import WorkspaceStore
from cortext.testing.table import every_row
from tests.support.cli import cortext, run

# What each sequence would do if printed raw.
HOSTILE = {
    "clear screen": "\x1b[2J\x1b[H",
    "colour": "\x1b[31m",
    "title": "\x1b]0;owned\x07",
    "clipboard (OSC 52)": "\x1b]52;c;cm0gLXJmIH4=\x07",
    "hyperlink (OSC 8)": "\x1b]8;;https://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "device control": "\x1bP+q544e\x1b\\",
    "answer back": "\x1b[6n\x05",
    "C1 CSI": "\x9b2J",
    "C1 OSC": "\x9d52;c;eA==\x9c",
    "bell and backspace": "\x07\x08\x08\x08",
    "carriage return": "safe\rrm -rf",
    "delete": "\x7f",
    "NUL": "\x00",
    "shift out": "\x0e\x0f",
    "form feed": "\x0b\x0c",
    "bidi override": "\u202egpj.exe\u202c",
    "bidi isolate": "\u2066x\u2069\u2067y\u2069\u2068z\u2069",
    "bidi mark": "\u061c",
    "bidi embedding": "\u202a\u202b\u202d",
    "zero width": "a\u200bb\u2060c\ufeffd",
    "separators": "\u2028\u2029",
    "annotation": "\ufff9a\ufffab\ufffb",
    "tags": "\U000e0001\U000e0041\U000e007f",
}
RAW = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
ALL = "begin " + " ".join(HOSTILE.values()) + " end"


@pytest.mark.req("SAFE-01")
@every_row("text", HOSTILE.values())
def test_each_hostile_sequence_is_made_visible(text: str) -> None:
    assert RAW.search(text)
    for shown in (terminal.line(f"a{text}b"), terminal.block(f"a{text}b")):
        assert not RAW.search(shown), ascii(shown)
        assert shown.startswith("a") and shown.endswith("b")
        assert len(shown) >= len(text) + 2, "nothing is hidden: each character has a mark"


@pytest.mark.req("SAFE-01")
def test_harmless_direction_marks_are_kept() -> None:
    text = "שלום (abc)\u200f, abc\u200e!"
    assert terminal.block(text) == terminal.line(text) == text


@pytest.mark.req("SAFE-01")
def test_a_lone_surrogate_becomes_a_replacement_character() -> None:
    assert terminal.line("a\ud800b\udfffc") == "a\ufffdb\ufffdc"
    assert terminal.block("a\udcffb").encode("utf-8") == "a\ufffdb".encode()


@pytest.mark.req("SAFE-01")
def test_every_control_character_is_caught_and_ordinary_text_is_kept() -> None:
    for code in (*range(0x30000), *range(0xE0000, 0xE1000)):
        character = chr(code)
        category = unicodedata.category(character)
        if category in ("Cc", "Cs", "Zl", "Zp") or unicodedata.bidirectional(character) in (
            *("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"),
        ):
            allowed = character in "\n\t"
            assert (terminal.block(character) == character) is allowed, hex(code)
            assert terminal.line(character) != character, hex(code)
    for text in ("Grüße, 世界", "שלום", "مرحبا", "👩‍👩‍👧 ✓ → …", "e\u0301", "a  b", "می‌خواهم"):
        assert terminal.line(text) == text
        assert terminal.block(f"{text}\n\t{text}") == f"{text}\n\t{text}"


@pytest.mark.req("SAFE-01")
@given(st.text(st.characters(codec=None) | st.sampled_from("\x1b\x9b\u202e\ud800\r\n\t ab"), max_size=60))
def test_the_fast_paths_miss_nothing(text: str) -> None:
    assert terminal.line(text) == terminal._pattern("\\t\\n").sub(terminal._mark, text)
    assert terminal.block(text) == terminal._pattern().sub(terminal._mark, text.replace("\r\n", "\n"))


def test_no_unsafe_character_is_printable() -> None:
    unsafe = terminal._pattern("\\t\\n")
    assert not [code for code in range(0x110000) if chr(code).isprintable() and unsafe.fullmatch(chr(code))]


def test_a_line_has_no_newlines_and_a_block_keeps_them() -> None:
    assert terminal.line("one\ntwo\tthree") == "one two three"
    assert terminal.block("one\r\ntwo\n") == "one\ntwo\n"
    assert terminal.block("safe\rrm") == "safe␍rm"
    assert terminal.line("\x1b[31m") == "␛[31m"
    assert terminal.line("\x9b") == "<U+009B>"


@pytest.fixture(scope="module")
def hostile_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace in a folder with a hostile name, in which everything that can be is hostile."""
    folder = tmp_path_factory.mktemp("hostile") / "we\x1b[2Jird\u202e"
    (folder / ".workspace" / "commands").mkdir(parents=True)
    entry = {"command": f"/workspace.{ALL}", "command_file": ".workspace/commands/plan.md", "description": ALL}
    registry = {"version": "1.0", "types": {"plan": entry, ALL: entry}}
    (folder / ".workspace/registry.json").write_text(json.dumps(registry), encoding="utf-8")
    (folder / ".workspace/commands/plan.md").write_text(f"# {ALL}\n", encoding="utf-8")
    store = WorkspaceStore(str(folder))
    store.create(Session(id="001-plan-x", type="plan", title=ALL))
    store.append(
        "001-plan-x",
        Message(role="user", content=ALL),
        Message(
            role="assistant",
            content=ALL,
            model=ALL,
            parts=[
                Part(type="tool_call", id="1", name=f"read {ALL}", input={"path": ALL, ALL: 1}),
                Part(type="thinking", text=ALL),
                Part(type="image", ref=ALL),
            ],
        ),
        Message(role="tool", content="", parts=[Part(type="tool_result", id="1", output=f"{ALL}\n" * 9)]),
    )
    store.update("001-plan-x", Change(summary=ALL, summary_by="agent", summary_covers=3))
    store.create(Session(id="002-plan-y", type=ALL, title="damaged"))
    store.append("002-plan-y", Message(role="user", content="x"))
    log = next(folder.glob("conversations/*/002-plan-y/.session/messages.jsonl"))
    with open(log, "ab") as file:
        file.write(b'{"role": "\x1b[2J\xff\n' + ALL.encode("utf-8") + b"\n")
    strange = log.parent.parent.parent / "003\x1b[31m\u202e" / ".session"
    strange.mkdir(parents=True)
    return folder


@pytest.mark.req("SAFE-01", "LOOK-01")
@pytest.mark.parametrize(
    "words",
    [
        [],
        ["list"],
        ["list", "--here"],
        ["show", "001-plan-x"],
        ["show", "001-plan-x", "--tools"],
        ["show", "002-plan-y"],
        ["title", "001-plan-x"],
        ["resume"],
        ["resume", "--list"],
        ["resume", "001-plan-x", "--print"],
        ["resume", "001-plan-x", "--ai", "claude", "--dry-run"],
        ["resume", "nothing-like-it", ALL.replace("\x00", "")],
        ["resume", "plan", "--in-tool"],
        ["resume", "001-plan-x", "--in-tool"],
        ["doctor"],
        ["repair", "002-plan-y", "--dry-run"],
        ["prune", "001-plan-x", "--keep", "1", "--dry-run"],
        ["restore"],
        ["restore", "\x1b[2J"],
        ["type"],
        ["trust"],
        ["show", "\x1b[2J\u202e"],
        ["new", "\x1b[2J\u202e", "x"],
        ["\x1b[2J\u202e"],
        ["import", "--path", "/nowhere/\x1b[2J\u202e"],
        ["init", "--ai", "\x1b[2J\u202e"],
    ],
    ids=lambda words: ascii(" ".join(words))[:40],
)
def test_no_command_prints_hostile_text_raw(
    hostile_store: Path, words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(hostile_store)
    stored = {path: path.read_bytes() for path in hostile_store.glob("conversations/*/*/.session/*") if path.is_file()}
    assert main(words) in (0, 1, 2, 3)
    said = capsys.readouterr()
    assert said.out or said.err
    for text in said:
        found = RAW.search(text)
        assert found is None, ascii(text[max(0, found.start() - 60) : found.end() + 20])
    assert {path: path.read_bytes() for path in stored} == stored, "the stored text is unchanged"


@pytest.mark.req("SAFE-01")
def test_a_separate_process_prints_nothing_hostile_either(hostile_store: Path) -> None:
    done = cortext("show", "001-plan-x", "--tools", cwd=hostile_store)
    assert done.code == 0
    assert not RAW.search(done.out + done.err)
    assert "begin ␛[2J␛[H" in done.out


@pytest.mark.req("SAFE-01")
def test_data_for_programs_is_verbatim(
    hostile_store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(hostile_store)
    for words in (["show", "001-plan-x", "--json"], ["export", "001-plan-x", "--format", "json", "--unmasked"]):
        assert main(words) == 0
        said = json.loads(capsys.readouterr().out)
        assert said["title"] == ALL and said["summary"] == ALL
        assert said["messages"][0]["content"] == ALL
    assert main(["export", "001-plan-x", "--unmasked"]) == 0
    assert ALL in capsys.readouterr().out


@pytest.mark.req("SAFE-01", "LOOK-03")
def test_completion_offers_nothing_that_the_shell_would_print_raw(hostile_store: Path) -> None:
    for words in (["show", ""], ["new", ""]):
        done = run(["cortext", "complete-words", *words], cwd=hostile_store)
        assert not RAW.search(done.out), ascii(done.out)


@pytest.mark.req("SAFE-01")
def test_json_for_a_terminal_has_the_same_values_but_nothing_unsafe() -> None:
    import json

    value = {"title": "\x9b31m \u202egnp \u2066x 日本 \U000e0041 é \x1b]0;x\x07"}
    shown = terminal.json_text(json.dumps(value, ensure_ascii=False, indent=2))
    assert json.loads(shown) == value
    assert terminal.block(shown) == shown
    assert "日本" in shown and "é" in shown
