"""Messages as a reader sees them: prose, folded thinking, each tool call together with its result, and masked secrets.

Each mark of a secret becomes an element that a reader can click. While text is rendered, a mark is a single character
of the private use area: no highlighter or sanitiser splits it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from html import escape
from typing import NamedTuple, Protocol

from markupsafe import Markup

from cortext.model import clock
from cortext.model.message import (
    ASSISTANT,
    TEXT,
    THINKING,
    TOOL,
    TOOL_CALL,
    TOOL_RESULT,
    USER,
    Message,
    Part,
    instructions_of,
    marks_of,
)
from cortext.model.wording import amount, cut
from cortext.safety import terminal
from cortext.services.digest.calls import ToolCall, calls_in, status_of
from cortext.services.text.edits import FileDiff, edits_of
from cortext.web.html import bounded
from cortext.web.html.rendering import MOST_LINES, load_template, render_edit, render_markdown, spans

_MARK = re.compile(r"\[masked ([a-z0-9-]{1,40}) ([0-9a-f]{2,6})\]")
_PRIVATE = re.compile("[\ue000-\uf8ff]")
_TAG_OR_PRIVATE = re.compile("<[^>]*>|[\ue000-\uf8ff]")
_FIRST, _LAST = 0xE000, 0xF8FF


class Marks:
    """The marks of one message. `reveal` is the address that shows the message unmasked; empty if there is none."""

    def __init__(self, reveal: str = "") -> None:
        self._reveal = reveal
        self._found: list[tuple[str, str]] = []

    def hide(self, text: str) -> str:
        """Return the text with a private character for every mark; such characters of its own are replaced."""
        if not text.isascii():
            text = _PRIVATE.sub("\ufffd", text)
        return _MARK.sub(self._take, text) if "[masked " in text else text

    def _take(self, match: re.Match[str]) -> str:
        if len(self._found) > _LAST - _FIRST:
            return match[0]
        self._found.append((match[1], match[2]))
        return chr(_FIRST + len(self._found) - 1)

    def show(self, html: str) -> Markup:
        """Return HTML with an element in place of each private character, except inside tags."""
        if not self._found:
            return Markup(html)  # made by our templates and sanitiser
        return Markup(_TAG_OR_PRIVATE.sub(self._shown, html))

    def _shown(self, match: re.Match[str]) -> str:
        index = ord(match[0][0]) - _FIRST
        if match[0][0] == "<":
            return _PRIVATE.sub("", match[0])
        if index >= len(self._found):
            return "\ufffd"
        kind, digits = self._found[index]
        label = f"masked {kind} {digits}"
        if not self._reveal:
            return f'<span class="secret">{label}</span>'
        title = "Show this message unmasked"
        return f'<a class="secret" href="{escape(self._reveal)}" data-reveal title="{title}">{label}</a>'


CUT = 6_000  # characters of a result or a call that are shown at first,
CUT_PROSE = 60_000  # and of what was said: a pasted log is no prose
SUMMARY = 140  # characters of the line that stands for a folded call
_ROLES = {USER: "You", ASSISTANT: "Assistant", "system": "System", TOOL: "Tool"}


class Addresses(Protocol):
    """Where the links of a message lead. An empty address means that there is no such link."""

    def message(self, seq: int) -> str:
        """Return the permanent address of a message."""

    def reveal(self, seq: int) -> str:
        """Return where the message is shown with its secrets."""

    def full(self, seq: int) -> str:
        """Return where the message is shown in full."""

    def file(self, path: str) -> str:
        """Return where the conversations behind a file are shown."""


class Block(NamedTuple):
    """A part of a message as HTML; `summary` stands for it while it is folded."""

    kind: str
    html: Markup
    summary: str = ""
    detail: str = ""
    status: str = ""
    more: str = ""  # the address that shows the rest of it
    left: int = 0  # characters that are not shown
    seqs: Sequence[int] = ()  # other messages that this part shows: the results of a call


class Item(NamedTuple):
    """A message to be shown."""

    seq: int
    role: str
    label: str
    timestamp: str
    link: str
    notes: list[str]
    blocks: list[Block]
    at: int = -1  # its position in the conversation, for a page that shows only a part of it

    @property
    def time(self) -> str:
        """The time, in its shortest clear form."""
        return clock.short(self.timestamp)


def items(
    messages: Sequence[Message],
    addresses: Addresses,
    *,
    full: Collection[int] = (),
    positions: Mapping[int, int] | None = None,
) -> Iterator[Item]:
    """Yield the messages; a result is shown with its call, if that is among them. `full` are shown without cuts.

    `positions` has the position of each message in the conversation.
    """
    calls = {id(call.part): call for call in calls_in(messages)}
    home = {id(part): message.seq for message in messages for part in message.parts or ()}
    answered = {id(call.result) for call in calls.values() if call.result is not None}
    made = {
        message.seq: list(
            _MessageView(message, addresses, calls, home, answered, complete=message.seq in full).blocks()
        )
        for message in messages
    }
    seen = {seq for seq, blocks in made.items() if blocks}
    for message in messages:
        blocks = []
        for block in made[message.seq]:
            # A number names one element: the message itself, or the first call that shows a result in it.
            inside = [seq for seq in block.seqs if seq not in seen]
            seen.update(inside)
            blocks.append(block._replace(seqs=inside))
        if not blocks:
            continue
        notes = marks_of(message)
        label = _ROLES.get(message.role, message.role)
        if message.role == ASSISTANT and message.model:
            notes.insert(0, message.model)
        link = addresses.message(message.seq)
        role = message.role if message.role in _ROLES else "other"
        at = positions[message.seq] if positions is not None else -1
        yield Item(message.seq, role, label, message.timestamp, link, notes, blocks, at)


def with_results(messages: Sequence[Message], seqs: Collection[int]) -> set[int]:
    """Return the numbers of these messages, and of those with the results of their calls, which they show."""
    home = {id(part): message.seq for message in messages for part in message.parts or ()}
    results = [call.result for call in calls_in(messages) if call.result is not None and home[id(call.part)] in seqs]
    return {*seqs, *(home[id(result)] for result in results)}


def html(shown: Sequence[Item] | Iterator[Item]) -> Markup:
    """Return the messages as HTML."""
    return Markup(load_template("html/messages.html").render(items=list(shown)))


def warm() -> None:
    """Start a process that renders the first messages."""
    bounded.warm(_rendered)


def render(
    messages: Sequence[Message],
    addresses: Addresses,
    *,
    full: Collection[int] = (),
    positions: Mapping[int, int] | None = None,
) -> Markup:
    """Return the messages as HTML. What would take too long to format is shown as it was written."""
    return Markup(bounded.run(_rendered, list(messages), addresses, set(full), positions))


def _rendered(
    messages: list[Message], addresses: Addresses, full: set[int], positions: Mapping[int, int] | None
) -> str:
    with bounded.budget():
        return str(html(items(messages, addresses, full=full, positions=positions)))


class _MessageView:
    """One message while its blocks are made."""

    def __init__(
        self,
        message: Message,
        addresses: Addresses,
        calls: dict[int, ToolCall],
        home: dict[int, int],
        answered: set[int],
        *,
        complete: bool,
    ) -> None:
        self._message, self._addresses, self._calls, self._complete = message, addresses, calls, complete
        self._home, self._answered = home, answered
        self._marks = Marks(addresses.reveal(message.seq))

    def blocks(self) -> Iterator[Block]:
        parts = self._message.parts or ()
        if told := instructions_of(self._message):
            prose = self._prose(self._message.content)
            yield prose._replace(kind="thinking", summary="Instructions", detail=terminal.line(told))
        elif self._message.content and not any(part.type == TEXT and part.text for part in parts):
            yield self._prose(self._message.content)
        for part in parts:
            if part.type == TEXT and part.text.strip():
                yield self._prose(part.text)
            elif part.type == THINKING and part.text.strip():
                beginning = " ".join(part.text[: SUMMARY * 2].split())[:SUMMARY]
                yield self._prose(part.text)._replace(kind="thinking", summary="Thinking", detail=beginning)
            elif part.type == TOOL_CALL:
                yield self._call(self._calls[id(part)])
            elif part.type == TOOL_RESULT and id(part) not in self._answered:
                name = part.name or "Result"
                html, left = self._output(part)
                status = "failed" if part.is_error else ""
                yield Block("call", html, name, "result", status, self._more(left), left)
            elif part.ref:
                name = part.name or part.media_type or part.type
                yield Block(
                    "reference", Markup("{}: {}").format(terminal.line(part.type), terminal.line(name)), part.ref
                )

    def _prose(self, text: str) -> Block:
        shown = self._cut(text, CUT_PROSE)
        left = len(text) - len(shown)
        html = self._marks.show(render_markdown(self._marks.hide(shown)))
        return Block("prose", html, more=self._more(left), left=left)

    def _more(self, left: int) -> str:
        return self._addresses.full(self._message.seq) if left else ""

    def _call(self, call: ToolCall) -> Block:
        edits = _edits(call.part)
        pieces, left = [], 0
        if edits:
            room = MOST_LINES  # for all files together
            for edit in edits:
                pieces.append(f'<p class="file">{escape(terminal.line(edit.path))}{self._origin(edit.path)}</p>')
                # Before it is cut into lines: a mark has no line break, so hiding cannot join or split any.
                lines = [line._replace(text=self._marks.hide(line.text)) for line in edit.lines]
                shown, rest = render_edit(edit._replace(lines=lines), lines=room, complete=self._complete)
                pieces.append(shown)
                left += rest
                room = max(0, room - len(lines))
        elif call.command or call.part.input is not None:
            text, language = (call.command, "bash") if call.command else (_json(call.part.input), "json")
            shown, left = self._code(text, language)
            pieces.append(shown)
        html = self._marks.show("".join(pieces))
        seqs: list[int] = []
        if call.result is not None:
            output, rest = self._output(call.result)
            html += output
            left += rest
            if (seq := self._home[id(call.result)]) != self._message.seq:
                seqs.append(seq)
        status = status_of(call)
        if edits and status in ("", "ok"):
            status = f"+{sum(edit.added for edit in edits)} −{sum(edit.removed for edit in edits)}"
        detail = self._summary(call, [edit.path for edit in edits])
        return Block("edit" if edits else "call", html, call.part.name, detail, status, self._more(left), left, seqs)

    def _origin(self, path: str) -> str:
        """Return the link to the conversations behind a file, if there is one."""
        link = self._addresses.file(path)
        title = "Which conversations wrote or used this file"
        return f' <a class="origin" href="{escape(link)}" title="{title}">why</a>' if link else ""

    def _code(self, text: str, language: str) -> tuple[str, int]:
        """Return code, and how many characters of it are left out."""
        shown = self._cut(text, CUT)
        left = len(text) - len(shown)
        rest = f"\n… {amount(left, 'more character')}" if left else ""
        code = spans(terminal.block(self._marks.hide(shown)), language)
        return f'<pre class="code" tabindex="0"><code>{code}{rest}</code></pre>', left

    def _cut(self, text: str, most: int) -> str:
        """Return the beginning of a text, unless all of it is wanted."""
        if self._complete or len(text) <= most:
            return text
        shown = text[:most]
        # A mark that is cut in two would not be recognised.
        mark = shown.rfind("[masked ", -60)
        return shown[:mark] if mark >= 0 and "]" not in shown[mark:] else shown

    def _summary(self, call: ToolCall, edited: list[str]) -> str:
        """Return the line for a folded call: the command, the files, or the beginning of its input."""
        text = call.command or ", ".join(dict.fromkeys(edited or [use.path for use in call.files]))
        text = text or (_json(call.part.input) if call.part.input else "")
        return cut(terminal.line(" ".join(text[: SUMMARY * 3].split())), SUMMARY)

    def _output(self, result: Part) -> tuple[Markup, int]:
        """Return a result, and how many characters of it are left out."""
        text = result.output
        shown = self._cut(text, CUT)
        kind = "output failed" if result.is_error else "output"
        body = self._marks.show(escape(terminal.block(self._marks.hide(shown))))
        if not text.strip():
            body = Markup('<span class="quiet">no output</span>')
        return Markup('<pre class="{}" tabindex="0">{}</pre>').format(kind, body), len(text) - len(shown)


def _json(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, indent=2)
    except (TypeError, ValueError, RecursionError):
        return str(value)


def _edits(call: Part) -> list[FileDiff]:
    """Return the edits of a call; none if comparing the texts takes too long: it is shown as any other call."""
    try:
        return bounded.within(len(_json(call.input)), lambda: edits_of(call))
    except bounded.TooLong:
        return []
