"""The lines of gptme's `conversation.jsonl`, and the calls in the text of an answer: `@shell(call_1): {"cmd": "ls"}`.

gptme sends such lines to the model as real calls. It also takes a code block for a call if it is marked with the name
of a tool, and leaves out the text that follows it; so code blocks in answers of other tools are fenced with tildes,
which it does not recognise.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from cortext.model.message import TOOL_CALL, Part
from cortext.model.turns import Call
from cortext.tools.shared.native import Mark

_CALL = re.compile(r"^@([^\r\n]+?)\(([\w\-:.]+)\):[ \t]*(?=\{)", re.MULTILINE)
_FENCE = re.compile(r"^(`{3,})(.*)$", re.MULTILINE)
_TOOL_FENCE = re.compile(
    r"^`{3,}[ \t]*(?:append|autocommit|autocompact|browser|chats|choice|clarify|complete|computer|convert|elicit|form"
    r"|gh|hashline_edit|ipython|lessons|mcp|memory|morph|patch|patch_many|progress|py|rag|read|recall|request_tool_change"
    r"|restart|save|screenshot|shell|subagent|tmux|todo|vent|vision|watch|youtube)(?![\w-])",
    re.MULTILINE,
)
_decoder = json.JSONDecoder()


class Metadata(msgspec.Struct, omit_defaults=True):
    """What gptme stores about a message. It keeps fields that it does not know, so our mark is one of them."""

    model: str = ""
    usage: dict[str, Any] | None = None
    tool: str = ""  # which tool a result is from
    cortext: Mark | None = None


class Record(msgspec.Struct, omit_defaults=True):
    """One message. A system message with a `call_id` is the result of that call."""

    role: str = ""
    content: str = ""
    timestamp: str = ""  # local time without a zone
    files: list[str] = []
    pinned: bool = False
    hide: bool = False
    ui_only: bool = False
    call_id: str | None = None
    metadata: Metadata | None = None


decoder = msgspec.json.Decoder(Record)


def split_calls(content: str) -> tuple[str, list[Part]]:
    """Return the text of an answer without its calls, and the calls."""
    calls: list[Part] = []
    texts: list[str] = []
    fenced = _fenced_ranges(content)
    position = begin = 0
    while match := _CALL.search(content, position):
        position = match.end()
        if any(start <= match.start() < end for start, end in fenced):
            continue
        try:
            value, position = _decoder.raw_decode(content, match.end())
        except (ValueError, RecursionError):
            continue
        calls.append(Part(TOOL_CALL, id=match[2], name=match[1], input=value))
        texts.append(content[begin : match.start()].strip("\n"))
        begin = position
    if not calls:
        return content, []
    texts.append(content[begin:].strip("\n"))
    return "\n".join(text for text in texts if text.strip()), calls


def call_line(call: Call) -> str:
    """Return a call as gptme writes it."""
    return f"@{call.name}({call.id}): {json.dumps(call.input, ensure_ascii=False)}"


def looks_like_call(text: str) -> bool:
    """Whether gptme would take a part of an answer for a call."""
    return bool(_TOOL_FENCE.search(text) or _CALL.search(text))


def without_calls(text: str) -> str:
    """Return an answer in which gptme finds no call: other fences, and a space in front of a line like a call."""
    text = _FENCE.sub(lambda fence: "~" * len(fence[1]) + fence[2], text)
    return _CALL.sub(lambda call: " " + call[0], text)


def _fenced_ranges(content: str) -> list[tuple[int, int]]:
    """Return where the code blocks are."""
    ranges: list[tuple[int, int]] = []
    opened: re.Match[str] | None = None
    for fence in _FENCE.finditer(content):
        if opened is None:
            opened = fence
        elif len(fence[1]) == len(opened[1]) and not fence[2].strip():
            ranges.append((opened.start(), fence.end()))
            opened = None
    return ranges
