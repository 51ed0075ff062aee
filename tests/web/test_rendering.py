"""What was stored never becomes a script, a request or a broken page: twenty classes of injection, in every part."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortext.model.message import TOOL_CALL, TOOL_RESULT, Message, Part
from cortext.model.session import Session
from cortext.services.library.branches import Threads
from cortext.services.library.listing import Row
from cortext.services.text.edits import edits_of
from cortext.testing.table import every_row
from cortext.web.html.document import document
from cortext.web.html.message import html, items
from cortext.web.html.rendering import render_markdown
from cortext.web.origins import link_to
from tests.web.injections import INJECTIONS, everywhere

pytestmark = pytest.mark.req("PAGE-01")

PATCH = "*** Begin Patch\n*** Update File: e.py\n@@\n k\n-o\n+n\n*** End Patch"
ALLOWED = {
    *("html", "head", "meta", "title", "style", "body", "main", "header", "footer", "article", "details", "summary"),
    *("h1", "h2", "h3", "h4", "h5", "h6", "p", "div", "span", "pre", "code", "a", "time", "em", "strong", "s", "br"),
    *("ul", "ol", "li", "blockquote", "table", "thead", "tbody", "tr", "th", "td", "hr"),
}


class _Check(HTMLParser):
    """Parses as a browser would, and collects what must not be there."""

    def __init__(self) -> None:
        super().__init__()
        self.wrong: list[str] = []
        self.depth: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ALLOWED:
            self.wrong.append(f"<{tag}>")
        for name, value in attrs:
            if name.startswith("on") or name in ("style", "src", "srcdoc", "action", "xlink:href"):
                self.wrong.append(f"{tag}.{name}")
            if name == "href" and not re.match(r"(https?:|mailto:|#|/|\?)", value or ""):
                self.wrong.append(f"{tag}.href={value}")
        if tag not in ("meta", "br", "hr"):
            self.depth.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.depth or self.depth.pop() != tag:
            self.wrong.append(f"</{tag}>")


class _Addresses:
    def message(self, seq: int) -> str:
        return f"/c/x/y?at={seq}#m{seq}"

    def reveal(self, seq: int) -> str:
        return f"/c/x/y?reveal={seq}"

    def full(self, seq: int) -> str:
        return f"/c/x/y?full={seq}"

    def file(self, path: str) -> str:
        return link_to(Row._make(["" for _ in Row._fields])._replace(project="/pond"), path)


def _wrong(page: str) -> list[str]:
    check = _Check()
    check.feed(page)
    check.close()
    return check.wrong + [f"left open: {tag}" for tag in check.depth]


@every_row("kind", INJECTIONS)
def test_stored_text_never_becomes_active(kind: str) -> None:
    text = INJECTIONS[kind]
    assert _wrong(str(html(items(everywhere(text), _Addresses())))) == []
    session = Session(id="x", title=text, summary=text, type=text)
    assert _wrong(document(session, everywhere(text))) == []


@given(st.text(alphabet=st.sampled_from("<>\"'&[]()!`*_#|-=:/\\ \n\tasx0{}%\ue000\u202e"), max_size=60))
def test_no_text_breaks_the_page(text: str) -> None:
    assert _wrong(str(html(items(everywhere(text), _Addresses())))) == []


def test_twenty_classes_are_covered() -> None:
    assert len(INJECTIONS) >= 20


def test_markdown_is_rendered_with_colours() -> None:
    shown = render_markdown("# One\n\n**bold** `x`\n\n```python\nx = 1  # why\n```\n\n| a |\n|-|\n| b |")
    assert '<h3 dir="auto">One</h3>' in shown and "<strong>bold</strong>" in shown and "<table>" in shown
    assert '<span class="t-c1"># why</span>' in shown


def test_a_huge_result_is_cut_and_says_so() -> None:
    call = Message(role="assistant", parts=[Part(TOOL_CALL, id="a", name="Bash", input={"command": "x"})], seq=0)
    result = Message(role="tool", parts=[Part(TOOL_RESULT, call_id="a", output="y" * 100_000)], seq=1)
    cut = str(html(items([call, result], _Addresses())))
    assert len(cut) < 10_000 and "94,000 more characters" in cut and 'href="/c/x/y?full=0"' in cut
    assert len(str(html(items([call, result], _Addresses(), full={0})))) > 100_000


def _cut_and_full(message: Message) -> tuple[str, str]:
    session = Session(id="x")
    return document(session, [message]), document(session, [message], full=True)


def test_long_diffs_are_cut_unless_all_is_wanted() -> None:
    lines = [f"line {number}" for number in range(1_000)]
    edits = [{"old_string": "", "new_string": "\n".join(lines)}, {"old_string": "", "new_string": "y" * 50_000}]
    call = Part(TOOL_CALL, id="a", name="MultiEdit", input={"file_path": "a.txt", "edits": edits})
    cut, full = _cut_and_full(Message(role="assistant", parts=[call], seq=0))
    assert "… 600 more lines" in cut and "… 1 more line<" in cut and "line 400" not in cut and len(cut) < 60_000
    assert "line 999" in full and "y" * 50_000 in full and "more line" not in full and "left out" not in full
    long = Part(TOOL_CALL, id="a", name="Write", input={"file_path": "a.txt", "content": "z" * 50_000})
    cut, full = _cut_and_full(Message(role="assistant", parts=[long], seq=0))
    assert "… 48,000 more characters" in cut and "z" * 2_001 not in cut and "z" * 50_000 in full


def test_a_pasted_log_is_cut_unless_all_is_wanted() -> None:
    message = Message(role="user", content="log " * 50_000, seq=0)
    cut, full = _cut_and_full(message)
    assert "140,000 more characters left out" in cut and len(cut) < 90_000
    assert full.count("log ") >= 49_999 and "left out" not in full
    shown = str(html(items([message], _Addresses())))
    assert 'href="/c/x/y?full=0"' in shown


def test_a_long_input_of_a_call_can_be_shown_too() -> None:
    call = Message(role="assistant", parts=[Part(TOOL_CALL, id="a", name="X", input={"text": "y" * 10_000})], seq=0)
    result = Message(role="tool", parts=[Part(TOOL_RESULT, call_id="a", output="z" * 7_000)], seq=1)
    shown = str(html(items([call, result], _Addresses())))
    left = 10_000 + len('{\n  "text": ""\n}') - 6_000
    assert f"… {left:,} more characters" in shown and f"{left + 1_000:,} more characters · " in shown
    assert 'href="/c/x/y?full=0"' in shown


def test_a_cut_leaves_no_half_of_a_mark() -> None:
    mark = "[masked anthropic-key 3f2a9c]"
    for size in range(5_970, 6_000):
        call = Part(TOOL_CALL, id="a", name="Bash", input={"command": "x" * size + mark + "y" * 99})
        shown = str(html(items([Message(role="assistant", parts=[call], seq=0)], _Addresses())))
        assert "[masked" not in shown


def test_a_result_is_shown_with_its_call_across_batches() -> None:
    log = [Message(role="user", content=f"m{number}", seq=number) for number in range(199)]
    log.append(Message(role="assistant", parts=[Part(TOOL_CALL, id="a", name="Bash", input={"command": "x"})], seq=199))
    log.append(Message(role="tool", parts=[Part(TOOL_RESULT, call_id="a", output="late")], seq=200))
    log += [Message(role="user", content=f"m{number}", seq=number) for number in range(201, 700)]
    page = document(Session(id="x"), log)
    assert '<article class="message tool"' not in page and "late" in page
    assert all(f'id="m{number}"' in page for number in range(700))


@pytest.mark.parametrize(
    ("call", "path", "signs"),
    [
        (Part(TOOL_CALL, name="E", input={"path": "a.py", "old_string": "x\ny", "new_string": "x\nz"}), "a.py", " -+"),
        (Part(TOOL_CALL, name="edit", input={"filePath": "b.py", "oldString": "", "newString": "n"}), "b.py", "+"),
        (Part(TOOL_CALL, name="replace", input={"path": "c", "edits": [{"oldText": "1", "newText": "2"}]}), "c", "-+"),
        (Part(TOOL_CALL, name="Write", input={"file_path": "d.py", "content": "1\n2"}), "d.py", "++"),
        (
            Part(TOOL_CALL, name="apply_patch", input={"input": PATCH}),
            "e.py",
            " -+",
        ),
        (Part(TOOL_CALL, name="patch", input="--- a/f.py\n+++ b/f.py\n@@ -1 +1 @@\n-o\n+n\n"), "f.py", "-+"),
    ],
)  # fmt: skip
def test_an_edit_of_any_tool_is_understood(call: Part, path: str, signs: str) -> None:
    edit = edits_of(call)[0]
    assert (edit.path, "".join(line.sign for line in edit.lines)) == (path, signs)


def test_what_is_not_an_edit_is_not_shown_as_one() -> None:
    values: list[Any] = [None, [], "text", {"command": "ls"}, {"content": "x"}, {"path": "a", "input": "no patch"}]
    for value in values:
        assert edits_of(Part(TOOL_CALL, name="Write" if value is None else "Read", input=value)) == []


def test_branches_are_the_threads_that_end() -> None:
    log = [
        Message(role="user", id="a", seq=0),
        Message(role="assistant", id="b", seq=1),
        Message(role="assistant", id="s", seq=2, aside=True),
        Message(role="user", id="c", seq=3, parent="a"),
        Message(role="assistant", id="d", seq=4),
        Message(role="user", id="e", seq=5, parent="(beginning)"),
    ]
    threads = Threads(log)
    assert [(each.leaf, each.after, each.messages) for each in threads.branches()] == [
        (1, -1, 2),
        (4, 0, 2),
        (5, -1, 1),
    ]
    assert (threads.path(), threads.path(4), threads.path(1)) == ([5], [0, 3, 4], [0, 1, 2])


def test_a_line_of_a_diff_is_one_line() -> None:
    call = Part(TOOL_CALL, name="Write", input={"file_path": "a.ts", "content": "let a = 1;\nlet b = 2;"})
    shown = str(html(items([Message(role="assistant", parts=[call], seq=0)], _Addresses())))
    diff = re.findall(r"<pre class=\"diff\".*?</pre>", shown, re.DOTALL)[0]
    assert diff.count('class="line added"') == 2 and diff.count("\n") == 2


@pytest.mark.req("TRUE-03")
def test_the_instructions_of_a_skill_are_folded() -> None:
    message = Message(
        role="system", content="# Wading\n\nStep slowly.", extra={"instructions": "skill <wading>"}, seq=0
    )
    shown = str(html(items([message], _Addresses())))
    folded = re.search(r"<details class=\"fold thinking\">\s*<summary>(.*?)</summary>.*Step slowly", shown, re.DOTALL)
    assert folded and "Instructions" in folded[1] and "skill &lt;wading&gt;" in folded[1]
    assert _wrong(shown) == []
