"""Tool calls in the text of gptme's answers, and code that must not look like one."""

from __future__ import annotations

import pytest

from cortext.model.message import Part
from cortext.model.turns import Call
from cortext.tools.gptme.notation import call_line, looks_like_call, split_calls, without_calls

pytestmark = pytest.mark.req("SESS-004d")


def test_calls_are_taken_out_of_the_text() -> None:
    given = {"command": 'echo "}{"', "n": {"deep": ["@x(1): {"]}}
    line = call_line(Call("c1", "shell", given, Part("tool_call")))
    text, calls = split_calls(f'Before.\n{line}\n@mcp files.read(a:b.c): {{"path": "ü\\n"}}\nAfter.')
    assert text == "Before.\nAfter."
    assert [(part.id, part.name, part.input) for part in calls] == [
        ("c1", "shell", given),
        ("a:b.c", "mcp files.read", {"path": "ü\n"}),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "mail me@example.org (or not): {x}",
        '```\n@shell(c1): {"command": "ls"}\n```',
        '@shell(c1): {"command": "cut o',
        "@shell(c1): [1, 2]",
    ],
)
def test_what_only_resembles_a_call_stays_text(text: str) -> None:
    assert split_calls(text) == (text, [])


@pytest.mark.parametrize("text", ["a\n```shell\nls\n```\nb", "````save x.py\n1\n````", '@shell(c1): {"command": "ls"}'])
def test_code_that_gptme_would_run_is_marked(text: str) -> None:
    assert looks_like_call(text)
    marked = without_calls(text)
    assert not looks_like_call(marked) and split_calls(marked)[1] == []
    assert marked.replace("~", "`").strip() == text


@pytest.mark.parametrize(
    "text", ["```python\nprint()\n```", "```\nshell\n```", "the ```shell is inline", "```shellac\n```"]
)
def test_other_code_is_left_alone(text: str) -> None:
    assert not looks_like_call(text)
