"""Aider's chat history: Markdown in which a prefix says whose words a line is.

    # aider chat started at 2026-11-02 08:00:00        a session begins
    > Model: gpt-x with diff edit format               Aider itself
    #### What the user said                            the user; further lines have the same prefix
    What the model answered

Aider ends its own lines and the user's with two spaces. An answer may contain lines with the same prefixes, but hardly
ever with the spaces, so these are told apart here. Aider itself does not tell them apart when it restores a history:
it leaves such lines out, or takes them for the user's. In what we write, before the first start, the prefix is enough,
because such lines of an answer are indented.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from cortext.model.message import ASSISTANT, USER

STARTED = "# aider chat started at "
USER_PREFIX, TOOL_PREFIX = "#### ", "> "
_LINE_END = "  "
# The prefixes by which Aider decides when it restores a history.
_RESERVED = ("# ", USER_PREFIX, TOOL_PREFIX)
# Aider splits lines at these, too: what follows would lose its prefix.
_SEPARATORS = re.compile("\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_MODEL = re.compile(r"(?:Main model|Model): (\S+) with ")
_TOKENS = re.compile(r"Tokens: ([\d.,]+)([kM]?) sent,.*?([\d.,]+)([kM]?) received")
_BETWEEN = "> (next message)"


class Block(msgspec.Struct):
    """What one side said, and what Aider's own lines say about it."""

    role: str
    text: str
    started: str = ""  # when its session began: local time
    model: str = ""
    usage: dict[str, int] | None = None
    left_out: int = 0  # lines that Aider would leave out if it restored this


def blocks(text: str) -> Iterator[Block]:
    """Yield the messages of a history. What precedes the user's first words in a session is Aider's start."""
    reader = _Reader()
    for line in text.split("\n"):
        yield from reader.add(line)
    yield from reader.end()


class _Reader:
    def __init__(self) -> None:
        self._started = self._model = ""
        self._user_spoke = self._in_output = False
        self._after_blank = True
        self._role = ""
        self._lines: list[str] = []
        self._last: Block | None = None  # held back until Aider's line with its tokens was seen

    def add(self, line: str) -> Iterator[Block]:
        end = len(_LINE_END) if self._started else 0
        marked = not end or line.endswith(_LINE_END)
        after_blank, self._after_blank = self._after_blank, not line.strip()
        if line.startswith(STARTED):
            yield from self.end()
            self._started, self._user_spoke, self._in_output = line.removeprefix(STARTED).strip(), False, False
        elif self._in_output:
            self._in_output = not marked
        elif marked and line.startswith(USER_PREFIX):
            if self._role != USER:
                yield from self.end()
            self._role, self._user_spoke = USER, True
            self._lines.append(line[len(USER_PREFIX) : len(line) - end])
        elif marked and line.startswith(TOOL_PREFIX):
            yield from self._close()
            self._note(line)
        elif line.startswith(TOOL_PREFIX) and self._role != ASSISTANT and not after_blank:
            yield from self._close()
            self._in_output = True  # several lines in one output: only the first has the prefix, the last the spaces
        else:
            if self._role == USER:
                yield from self._close()
            if self._role == ASSISTANT or (self._user_spoke and line.strip()):
                self._role = ASSISTANT
                self._lines.append(line)

    def _note(self, line: str) -> None:
        """Take what one of Aider's own lines says about the model and the last answer."""
        if model := _MODEL.match(line, len(TOOL_PREFIX)):
            self._model = model[1]
        tokens = _TOKENS.match(line, len(TOOL_PREFIX))
        if tokens and self._last is not None and self._last.role == ASSISTANT:
            self._last.usage = {
                "input_tokens": _number(tokens[1], tokens[2]),
                "output_tokens": _number(tokens[3], tokens[4]),
            }

    def _close(self) -> Iterator[Block]:
        """End the current message, but hold it back."""
        if not self._role:
            return
        if self._last is not None:
            yield self._last
        text = "\n".join(self._lines)
        is_answer = self._role == ASSISTANT
        self._last = Block(
            role=self._role,
            text=text.strip("\n") if is_answer else text,
            started=self._started,
            model=self._model if is_answer else "",
            left_out=sum(line.startswith(_RESERVED) for line in self._lines) if is_answer else 0,
        )
        self._role, self._lines = "", []

    def end(self) -> Iterator[Block]:
        """End the current message."""
        yield from self._close()
        if self._last is not None:
            yield self._last
        self._last = None


def _number(digits: str, unit: str) -> int:
    try:
        return int(float(digits.replace(",", "")) * {"k": 1_000, "M": 1_000_000}.get(unit, 1))
    except ValueError:
        return 0


def without_separators(text: str) -> tuple[str, int]:
    """Return a text in which only newlines end a line, and how many other separators it had."""
    return _SEPARATORS.subn("\n", text)


def indented(text: str) -> tuple[str, int]:
    """Return an answer of which Aider restores every line, and how many lines had to be indented for that."""
    lines = [f" {line}" if line.startswith(_RESERVED) else line for line in text.split("\n")]
    return "\n".join(lines), sum(line.startswith(_RESERVED) for line in text.split("\n"))


def formatted(role: str, text: str, after: str) -> str:
    """Return a message as Aider restores it; `after` is the role of the previous one."""
    if role == USER:
        return "\n" + "".join(f"{USER_PREFIX}{line}\n" for line in text.split("\n"))
    # Aider would restore two answers as one.
    between = f"{_BETWEEN}\n" if after == ASSISTANT else ""
    return f"{between}\n{text}\n\n"
