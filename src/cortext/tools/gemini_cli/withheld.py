"""What Gemini CLI omits, repeats and shortens when it resumes a session of its own (read in version 0.61.0).

What it sends is the list of records that its file ends with: `$set` may have replaced the list, under other ids, and
without some messages. It omits user messages that begin like its commands. It stores the results of tool calls twice,
with the calls and as a separate message, and sends both. Of long old results it sends excerpts (`_shortened`). After a
compression it sends a summary instead of the earlier messages.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from cortext.tools.base import Counts, Withheld
from cortext.tools.gemini_cli.messages import COMPRESSED, bookkeeping
from cortext.tools.gemini_cli.read import document_records, is_document
from cortext.tools.gemini_cli.records import Record, fingerprint, record_decoder
from cortext.tools.shared.building import ContentPart, FunctionResponse, parts_of
from cortext.tools.shared.lines import ForeignLines

COMMANDS = "message that begins with / or ? (Gemini CLI does not send it again)"
REMOVED = "message that Gemini CLI has removed from its session"
REPEATED = "tool result that Gemini CLI sends more than once"
SHORTENED = "tool result that Gemini CLI shortens when it sends it"
_OMITTED_PREFIXES = ("/", "?", "<session_context>", "<hook_context>")

_SHORTENED_BEFORE = "<tool_output_masked"
_KEPT_TOKENS = 50_000  # of the newest results stay as they are,
_WORTHWHILE_TOKENS = 30_000  # and the others too, if they have fewer than these
_EXEMPT = frozenset(("activate_skill", "ask_user", "enter_plan_mode", "exit_plan_mode"))
_SHELL = "run_shell_command"
_PREVIEW = 250  # characters at the beginning and at the end of a result,
_PREVIEW_LINES = 10  # or lines of a shell command's output
_SECTION = re.compile(r"^(Output|Error|Exit Code|Signal|Background PIDs|Process Group PGID): ", re.MULTILINE)
_CHARACTERS_PER_TOKEN = 4
_MEDIA_TOKENS = (("image/", 3_000), ("application/pdf", 25_800))


def withheld(path: str) -> Withheld | None:
    """Return which messages the tool would not send, and how many results it would repeat or shorten.

    None after a compression.
    """
    observer = _Observer(os.path.dirname(os.path.dirname(path)))
    counts = Counts()
    if is_document(path):
        records = document_records(path, counts)
    else:
        lines = ForeignLines(path, 0, counts)
        records = (record for line in lines for record in lines.decode(line, record_decoder, Record))
    for record in records:
        observer.add(record)
    return observer.result()


class _Answer(NamedTuple):
    """A tool result: its call, its tokens as Gemini CLI estimates them, and those of its excerpt."""

    call: str
    tokens: int
    excerpt: int
    is_excerpt: bool
    is_exempt: bool


class _Kept(NamedTuple):
    """What is kept of a record: no texts, because there may be very many."""

    is_user: bool
    is_omitted: bool
    is_compressed: bool
    content: frozenset[int | str]  # fingerprints of its texts, and its calls
    answers: list[_Answer]  # those in its content
    answers_of_calls: list[_Answer]  # those stored with its calls


class _Observer:
    """Follows the records in order: what the list of them is at the end, and what was ever in it."""

    def __init__(self, folder: str) -> None:
        self._folder = folder  # the tool's own for the project: excerpts name a file in it
        self._list: dict[str, _Kept] = {}
        self._ever: dict[str, _Kept] = {}

    def add(self, record: Record) -> None:
        """Process one record."""
        if record.changed is not None and record.changed.messages is not None:
            self._list = {}
            self._add_all(record.changed.messages)
        elif record.rewind is not None:
            names = list(self._list)
            start = names.index(record.rewind) if record.rewind in self._list else 0
            for name in names[start:]:
                del self._list[name]
        elif record.messages is not None:
            self._add_all(record.messages)
        if record.type in ("user", "gemini") and record.id:
            self._list[record.id] = kept = self._kept(record)
            self._ever.setdefault(record.id, kept)

    def _add_all(self, raws: list[msgspec.Raw]) -> None:
        for raw in raws:
            try:
                self.add(record_decoder.decode(raw))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue  # `GeminiReading` counts the damage

    def _kept(self, record: Record) -> _Kept:
        parts = parts_of(record.content)
        texts = [part.text for part in parts if part.text and not part.thought]
        calls = [call.id for call in record.toolCalls or ()] + [
            part.functionCall.id for part in parts if part.functionCall
        ]
        results = [part for call in record.toolCalls or () for part in _results_of(call.result)]
        is_user, text = record.type == "user", "".join(part.text or "" for part in parts)
        return _Kept(
            is_user=is_user,
            is_omitted=is_user and text.strip().startswith(_OMITTED_PREFIXES),
            is_compressed=is_user and record.cortext is None and bookkeeping(text) == COMPRESSED,
            content=frozenset([*map(fingerprint, texts), *(call for call in calls if call)]),
            answers=[self._answer(part.functionResponse) for part in parts if part.functionResponse],
            answers_of_calls=[self._answer(part.functionResponse) for part in results if part.functionResponse],
        )

    def _answer(self, answer: FunctionResponse) -> _Answer:
        name, call = answer.name or "", answer.id or ""
        value = _json(answer.response)
        is_excerpt = _SHORTENED_BEFORE in value
        tokens = _tokens(name, value) + _media_tokens(answer)
        file = f"{self._folder}/tool-outputs/session-{'x' * 36}/{name}_{call}_{'x' * 6}.txt"
        excerpt = (
            f"{_SHORTENED_BEFORE}>\n{_preview(name, answer.response)}\n\n"
            f"Output too large. Full output available at: {file}\n</tool_output_masked>"
        )
        shortened = _tokens(name, _json({"output": excerpt})) + _media_tokens(answer)
        return _Answer(call, tokens, shortened, is_excerpt, name in _EXEMPT)

    # ── the result ───────────────────────────────────────────────────────────────────────────────────

    def result(self) -> Withheld | None:
        """Return what was found so far."""
        if any(kept.is_compressed for kept in self._list.values()):
            return None
        sent = frozenset().union(*(kept.content for kept in self._list.values() if not kept.is_omitted))
        missing: dict[str, set[str]] = {}
        for name, kept in self._ever.items():
            if not self._is_sent(name, kept, sent):
                missing.setdefault(COMMANDS if kept.is_omitted else REMOVED, set()).add(name)
        contents = self._contents()
        calls = [answer.call for content in contents for answer in content if answer.call]
        changed = {REPEATED: len(calls) - len(set(calls)), SHORTENED: len(_shortened(contents))}
        return Withheld(messages=missing, changed={kind: count for kind, count in changed.items() if count})

    def _is_sent(self, name: str, kept: _Kept, sent: frozenset[int | str]) -> bool:
        """Whether a record is in the list that is sent, itself or under another id."""
        if name in self._list:
            return not self._list[name].is_omitted
        return not kept.content or not kept.content.isdisjoint(sent)

    def _contents(self) -> list[list[_Answer]]:
        """Return the results in each content that is sent; a role's records in a row are one content."""
        contents: list[list[_Answer]] = [[]]
        is_users = False
        for kept in self._list.values():
            if kept.is_omitted:
                continue
            if kept.is_user != is_users:
                contents.append([])
            contents[-1] += kept.answers
            if kept.answers_of_calls:
                contents.append(kept.answers_of_calls[:])
            is_users = kept.is_user or bool(kept.answers_of_calls)
        return contents


def _shortened(contents: list[list[_Answer]]) -> set[str]:
    """Return the calls whose result is sent only as an excerpt, by now or from the next turn on.

    Counted from the end, and without the newest content, the results within a number of tokens stay as they are.
    """
    *older, newest = contents
    whole = {answer.call for answer in newest if not answer.is_excerpt}
    excerpts: set[str] = set()
    candidates: list[_Answer] = []
    counted = 0
    for answer in (answer for content in reversed(older) for answer in reversed(content)):
        if answer.is_excerpt or answer.is_exempt:
            (excerpts if answer.is_excerpt else whole).add(answer.call)
            continue
        counted += answer.tokens
        if counted > _KEPT_TOKENS:
            candidates.append(answer)
        else:
            whole.add(answer.call)
    is_worthwhile = sum(answer.tokens for answer in candidates) >= _WORTHWHILE_TOKENS
    for answer in candidates:
        (excerpts if is_worthwhile and answer.excerpt < answer.tokens else whole).add(answer.call)
    return excerpts - whole


def _results_of(result: Any) -> Iterator[ContentPart]:
    """Yield the parts of a call's result as Gemini CLI sends them: a text is the output."""
    for part in parts_of(result):
        if part.functionResponse is None and part.text and isinstance(result, str):
            yield ContentPart(functionResponse=FunctionResponse(response={"output": part.text}))
        else:
            yield part


def _json(value: Any) -> str:
    """Return a value as Gemini CLI writes it."""
    return "" if value is None else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _tokens(name: str, response: str) -> int:
    return (_length(name) + _length(response)) // _CHARACTERS_PER_TOKEN


def _length(text: str) -> int:
    """Return the length as JavaScript counts it."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def _media_tokens(answer: FunctionResponse) -> int:
    kinds = [
        (part.inlineData.mimeType if part.inlineData else part.fileData.mimeType if part.fileData else None) or ""
        for part in answer.parts or ()
    ]
    return sum(tokens for kind in kinds for start, tokens in _MEDIA_TOKENS if kind.startswith(start))


def _preview(name: str, response: Any) -> str:
    """Return the excerpt of a result."""
    if name != _SHELL:
        text = json.dumps(response, ensure_ascii=False, indent=2)
        if len(text) <= 2 * _PREVIEW:
            return text
        return f"{text[:_PREVIEW]}\n... [TRUNCATED] ...\n{text[-_PREVIEW:]}"
    values = response if isinstance(response, dict) else {}
    output = values.get("output") or values.get("stdout") or ""
    if not isinstance(output, str):
        return _json(output)
    sections = _SECTION.split(output)
    if len(sections) < 3:
        return _ends(output)
    named = zip(sections[1::2], sections[2::2], strict=True)
    shown = [f"{kind}: {_ends(text.strip()) if kind == 'Output' else text.strip()}" for kind, text in named]
    return "\n".join([*([_ends(sections[0].strip())] if sections[0].strip() else []), *shown])


def _ends(text: str) -> str:
    lines = text.split("\n")
    if len(lines) <= 2 * _PREVIEW_LINES:
        return text
    left = len(lines) - 2 * _PREVIEW_LINES
    middle = f"\n\n... [{left} lines omitted] ...\n\n"
    return "\n".join(lines[:_PREVIEW_LINES]) + middle + "\n".join(lines[-_PREVIEW_LINES:])
