"""A stored message that is slow to format is shown as written, and other conversations are answered meanwhile."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from pathlib import Path

import pytest
from pygments.lexers import get_all_lexers

from cortext.model.message import TOOL_CALL, Message, Part
from cortext.model.session import Session
from cortext.store.files.workspace import WorkspaceStore
from cortext.web.html import bounded
from cortext.web.html.message import render
from cortext.web.html.rendering import render_markdown, spans
from tests.faces.pond import Pond, make_pond
from tests.web.served import Served
from tests.web.test_rendering import _Addresses

pytestmark = pytest.mark.req("SAFE-13")

# Each makes some highlighters quadratic, or worse.
HOSTILE = ("\n", "a\n", '"\\', "a.", "/*", "&", "@@ ", "v0x", "a ", "==", "[=", "<?", "${", "a:")
USUAL = ("amdgpu", "python", "c", "csharp", "typescript", "yaml")
OTHERS = sorted({names[0] for _, names, *_ in get_all_lexers() if names} - set(USUAL))
SLOW = f"```amdgpu\n{'v0x' * 6_600}\n```"
OLD, NEW = "a\nb\n" * 2_000, "b\na\na\nb\n" * 1_000


def _seconds_over(size: int, began: float) -> float:
    """Return by how much processor time the limit for a text of this size was exceeded."""
    return time.process_time() - began - (bounded.BASE + bounded.EACH * size)


def _colour(language: str, size: int) -> None:
    spans("a = 1\n", language)  # imports the highlighter
    for piece in HOSTILE:
        code = (piece * size)[:size]
        began = time.process_time()
        html = spans(code, language)
        assert _seconds_over(size, began) < 0.5, (language, piece)
        assert html or not code


@pytest.mark.parametrize("language", USUAL)
def test_no_code_takes_long_to_colour(language: str) -> None:
    _colour(language, 8_000)


@pytest.mark.repeats
@pytest.mark.parametrize("language", OTHERS)
def test_no_language_takes_long_to_colour(language: str) -> None:
    _colour(language, 8_000)


def test_code_that_is_not_coloured_is_complete() -> None:
    code = "\n" * 19_000 + "int <heron>;"
    assert unescape(spans(code, "c")) == code


def test_ordinary_code_is_coloured() -> None:
    code = "def wade(depth: int) -> str:\n    return f'{depth} cm'  # why\n" * 300
    assert len(code) > 18_000 and spans(code, "python").count("t-c1") == 300


def test_two_texts_that_are_slow_to_compare_are_shown_as_a_call() -> None:
    call = Part(TOOL_CALL, name="Edit", input={"file_path": "heron.py", "old_string": OLD, "new_string": NEW})
    began = time.process_time()
    shown = render([Message(role="assistant", parts=[call], seq=0)], _Addresses())
    assert time.process_time() - began < 2 * bounded.TOGETHER
    assert "heron.py" in shown and "more characters" in shown


def test_many_slow_texts_share_one_limit() -> None:
    began = time.process_time()
    shown = render([Message(role="user", content=SLOW, seq=seq) for seq in range(40)], _Addresses())
    assert time.process_time() - began < 2 * bounded.TOGETHER
    assert unescape(shown).count("v0x" * 6_600) == 40


def test_markdown_without_time_says_that_it_is_not_formatted() -> None:
    with bounded.budget(0):
        shown = render_markdown("**bold** <heron> today")
    assert "formatting it takes too long" in shown and "**bold** &lt;heron&gt; today" in shown
    assert "<strong>" in render_markdown("**bold** <heron> today")  # and that is not remembered


def test_without_a_process_the_text_is_shown_as_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "_idle", [])
    monkeypatch.setattr("sys.executable", "/nothing")
    with ThreadPoolExecutor(1) as pool:
        shown = pool.submit(render, [Message(role="user", content="**heron**", seq=0)], _Addresses()).result()
    assert "**heron**" in shown


def test_a_process_that_died_is_replaced() -> None:
    heron = [Message(role="user", content="**heron**", seq=0)]
    with ThreadPoolExecutor(1) as pool:
        assert "<strong>heron</strong>" in pool.submit(render, heron, _Addresses()).result()
        for process in bounded._idle:
            process.kill()
            process.wait()
        assert "<strong>heron</strong>" in pool.submit(render, heron, _Addresses()).result()


@pytest.fixture(scope="module")
def pond(tmp_path_factory: pytest.TempPathFactory) -> Pond:
    made = make_pond(tmp_path_factory.mktemp("bounded"))
    store = WorkspaceStore(str(made.folder))
    store.create(Session(id="005-slow", title="Slow", created_at="2026-06-02T10:00:00.000Z"))
    store.create(Session(id="006-code", title="Code", created_at="2026-06-02T10:00:00.000Z"))
    store.append("006-code", Message(role="user", content="```python\nx = 1  # why\n```"))
    store.append("005-slow", *(Message(role="user", content=SLOW) for _ in range(40)))
    return made


@pytest.fixture(scope="module", autouse=True)
def _no_process_is_left() -> Iterator[None]:
    yield
    while bounded._idle:
        bounded._end(bounded._idle.pop())


def _processor(process: int) -> float:
    """Return the processor seconds of a process and those it started, ended or not."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    own = sum(int(each) for each in fields[11:15]) / os.sysconf("SC_CLK_TCK")
    children = Path(f"/proc/{process}/task").glob("*/children")
    return own + sum(_processor(int(child)) for each in children for child in each.read_text().split())


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts processor time with Linux' /proc")
def test_a_slow_conversation_keeps_nobody_from_reading_another(served: Served) -> None:
    slow, other = served.link("Slow"), served.link("Herons at the pond")
    assert "Seventeen herons" in served.get(other).text
    before = _processor(served.process)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(served.get, slow)
        replies = [served.get(other)]
        while not first.done():
            replies.append(served.get("/"))
    spent = _processor(served.process) - before
    assert all(reply.status == 200 for reply in replies) and "Seventeen herons" in replies[0].text
    assert unescape(first.result().text).count("v0x" * 6_600) == 40
    assert spent < bounded.TOGETHER + 0.3 * len(replies) + 3


def test_the_page_shows_code_with_colours(served: Served) -> None:
    assert '<span class="t-c1"># why</span>' in served.get(served.link("Code")).text
