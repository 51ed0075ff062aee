"""The streamed answer: independent of how it is split, folded at spaces, and free of control sequences."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortext.agents.terminal.prompt import InputHistory
from cortext.faces.terminal.markdown import Markdown
from cortext.faces.terminal.table import width
from cortext.safety import terminal

TEXT = """\
# A heading
Some **bold text** and `a span` in a paragraph that is long enough to be folded at forty columns.

- a bullet with a rather long text that is folded and then indented
> a quote

```python
def f(**kwargs):  # a comment that is much longer than the screen is wide, and must not be folded
    return `x`
```
日本語のテキストは空白がないので、どこでも折り返すことができます。そうでしょう。
evil \x1b[31m red \x1b]0;x\x07 and\r
| a | b |
no end"""


def shown(parts: list[str], *, colour: bool = True, columns: int = 40, flush: bool = False) -> str:
    out: list[str] = []
    printer = Markdown(out.append, colour=colour, columns=columns)
    for part in parts:
        printer.feed(part)
        if flush:
            printer.flush()
    printer.end()
    return "".join(out)


def without_colour(text: str) -> str:
    return re.sub(r"\x1b\[[0-9]*m", "", text)


@given(st.lists(st.integers(1, 30), max_size=60))
def test_the_output_does_not_depend_on_how_the_text_is_split(cuts: list[int]) -> None:
    parts, rest = [], TEXT
    for cut in cuts:
        parts.append(rest[:cut])
        rest = rest[cut:]
    parts.append(rest)
    assert shown(parts) == shown([TEXT])


@pytest.mark.req("SAFE-01")
@given(st.text(max_size=200), st.booleans(), st.sampled_from([0, 20, 80]))
def test_no_text_controls_the_terminal_and_no_text_is_lost(text: str, colour: bool, columns: int) -> None:
    out = shown(list(text), colour=colour, columns=columns, flush=True)
    plain = without_colour(out) if colour else out
    assert terminal.block(plain) == plain
    assert "".join(plain.split()) == "".join(terminal.block(text.removesuffix("\r")).split())


def test_prose_is_folded_at_spaces_and_code_is_not() -> None:
    lines = without_colour(shown([TEXT])).splitlines()
    code = next(line for line in lines if line.startswith("def f"))
    assert code.endswith("must not be folded")
    assert all(width(line) <= 40 for line in lines if line != code)
    assert "  folded and then indented" in lines or any(line.startswith("  ") for line in lines)
    assert "\x1b[1m# A heading" in shown([TEXT]) and "\x1b[36m    return `x`" in shown([TEXT])


def test_without_a_terminal_the_text_is_unchanged() -> None:
    plain = shown([TEXT], colour=False, columns=0)
    assert plain == terminal.block(TEXT) + "\n"
    assert shown(["ends with a newline\n"], colour=False, columns=0) == "ends with a newline\n"
    assert shown([], columns=0) == ""


def test_the_history_of_a_prompt_survives_invalid_lines(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("state") / "deep" / "history"
    history = InputHistory(str(path))
    assert history.load() == []
    for text in ("one", "two\nlines", "drei \udcff größer"):
        history.add(text)
    with path.open("ab") as file:
        file.write(b'\xff\xfe\n{"not": "text"}\n"four"\n')
    assert InputHistory(str(path)).load() == ["one", "two\nlines", "drei \udcff größer", "four"]
    assert path.stat().st_mode & 0o777 == 0o600
    for _ in range(3):
        history.add("x" * 600_000)
    assert path.stat().st_size < 1_500_000 and history.load()[-1] == "x" * 600_000
    InputHistory("/dev/null/nowhere").add("a history that cannot be written is no error")
