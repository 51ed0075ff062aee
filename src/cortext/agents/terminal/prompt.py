"""What the user asks: typed at the input line, with a history over all runs, or piped together with a question.

On a terminal, prompt_toolkit draws the line: history with the arrow keys, Tab completion, several lines, typing ahead.
It is imported after a plain prompt is on the screen, so that the first prompt appears immediately. Elsewhere lines are
read from standard input as they are.
"""

from __future__ import annotations

import sys
import termios
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from typing import TYPE_CHECKING

from cortext.agents.talk.slash import Complete
from cortext.agents.terminal.interrupt import answer_to, interrupts_raised, mark_pastes, pending_interrupt
from cortext.faces.terminal.output import coloured, paint
from cortext.safety import terminal

if TYPE_CHECKING:
    from cortext.agents.terminal.prompt_parts import LivePrompt
import codecs
import json
import os
import re
import select
import stat

from cortext.errors import CortextError, UsageError
from cortext.io import durable


class Prompt:
    """Asks for the next message. Raises EOFError at Ctrl-D, KeyboardInterrupt at Ctrl-C."""

    def __init__(self, history: InputHistory, complete: Complete) -> None:
        self.history, self._complete = history, complete
        self.live = sys.stdin.isatty() and sys.stdout.isatty()
        self._live: LivePrompt | None = None
        if not self.live and isinstance(sys.stdin, TextIOWrapper):
            sys.stdin.reconfigure(errors="surrogateescape")  # bytes that are not UTF-8 are reported, with their line

    def ask(self, label: str, *, default: str = "", shown: Callable[[], object] | None = None) -> str:
        """Return what is typed after `default`, without the newline; `shown` is called when it is on screen."""
        label = terminal.line(label)
        if not self.live:
            if sys.stdin.isatty():  # typed by hand, with the output redirected
                sys.stderr.write(label)
                sys.stderr.flush()
            if shown is not None:
                shown()
            with interrupts_raised():
                return checked(_plain_input())
        first = self._live is None
        with _keys_only():
            if first and not default:
                self._announce(label)
            live = self._live = self._live or self._start()
            if first and not default:
                sys.stdout.write("\r\x1b[K")
                sys.stdout.flush()
            pending_interrupt().take()  # the answer is complete: there is nothing left to stop
            text = live.ask(label, default, shown, is_first=first, is_coloured=coloured())
        if live.interrupted_after_enter():
            pending_interrupt().pressed = True
        if text.strip():
            self.history.add(text)
        return text

    def _announce(self, label: str) -> None:
        """Show the prompt as plain text; what is typed from now on is read by the real prompt."""
        sys.stdout.write(paint(label, "bold", "green"))
        sys.stdout.flush()

    def _start(self) -> LivePrompt:
        from cortext.agents.terminal.prompt_parts import LivePrompt

        return LivePrompt(self.history.load, self._complete)


@contextmanager
def _keys_only() -> Iterator[None]:
    """Within the block, keys are neither echoed nor signals, also before and after prompt_toolkit reads them.

    As a signal, Ctrl-C would stop what is not running any more, or be lost. Afterwards the terminal marks pastes again:
    prompt_toolkit has stopped that.
    """
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    keys = [*before]
    keys[3] &= ~(termios.ECHO | termios.ICANON | termios.ISIG)
    termios.tcsetattr(descriptor, termios.TCSADRAIN, keys)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
        mark_pastes()


def _plain_input() -> str:
    """Return the next line of standard input, with its continuation lines."""
    lines: list[str] = []
    while True:
        line = sys.stdin.readline()
        if not line:
            if lines:
                return "\n".join(lines)
            raise EOFError
        line = line.removesuffix("\n")
        if not line.endswith("\\"):
            return "\n".join([*lines, line])
        lines.append(line[:-1])


def ask_which(question: str, answers: Sequence[str]) -> str:
    """Ask a question until one of the answers (or its first letters) is given, and return it; "" for none."""
    while True:
        try:
            given = answer_to(f"{question} [{'/'.join(answers)}] ").strip().lower()
        except (EOFError, KeyboardInterrupt):
            print()
            return ""
        if not given:
            return ""
        for answer in answers:
            if answer.startswith(given):
                return answer


LARGEST = 1 << 20  # bytes; then only the newer half is kept
MOST_ENTRIES = 1000  # entries that a prompt offers


class InputHistory:
    """The history of one face's prompt, in a file of its own. Failures to write it are ignored."""

    def __init__(self, path: str) -> None:
        self.path = path

    def load(self) -> list[str]:
        """Return the newest entries, oldest first; invalid lines are skipped."""
        try:
            lines = durable.read_text(self.path, "replace").splitlines()[-MOST_ENTRIES:]
        except OSError:
            return []
        return [entry for line in lines if (entry := _entry(line))]

    def add(self, text: str) -> None:
        """Add an entry."""
        try:
            durable.ensure_folder(os.path.dirname(self.path))
            durable.append_once(self.path, (json.dumps(text) + "\n").encode("ascii"))
            if os.stat(self.path).st_size > LARGEST:
                kept = self.load()
                newer = kept[len(kept) // 2 :]
                durable.replace_file(self.path, [(json.dumps(entry) + "\n").encode("ascii") for entry in newer])
        except (OSError, CortextError):
            pass


def _entry(line: str) -> str:
    try:
        entry = json.loads(line)
    except ValueError:
        return ""
    return entry if isinstance(entry, str) else ""


_INVALID = re.compile("[\udc80-\udcff]")  # how Python reads such a byte
BEGINNING = 1 << 16  # bytes of a pipe that are read to see what is piped in
BEGINS_WITHIN = 1.0  # seconds to wait for them
NOTE_AFTER = 2.0  # seconds until a note says what we are waiting for


def question_of(words: Sequence[str]) -> str:
    """Return the question, with the piped input in place of `-`, or after it if there is no `-`."""
    if "-" in words:
        return " ".join(_read() if word == "-" else word for word in words).strip()
    question = " ".join(words).strip()
    return "\n\n".join(filter(None, (question, _read() if _is_piped() else "")))


def _is_piped() -> bool:
    """Whether standard input is a pipe, a file or a socket."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError, AttributeError):  # it is closed
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def _read() -> str:
    """Read standard input to its end. Bytes that are not UTF-8 raise UsageError."""
    if isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")
    try:
        if not select.select([sys.stdin], [], [], NOTE_AFTER)[0] and sys.stderr.isatty():
            print("(waiting for the end of standard input; use < /dev/null to ask without it)", file=sys.stderr)
    except (OSError, ValueError):  # it does not support select
        pass
    return checked(sys.stdin.read()).strip()


def beginning() -> str:
    """Return the beginning of what is piped in; empty if nothing is, or nothing comes soon. Raises as `_read`."""
    if not _is_piped():
        return ""
    descriptor = sys.stdin.fileno()
    try:
        raw = os.read(descriptor, BEGINNING) if select.select([descriptor], [], [], BEGINS_WITHIN)[0] else b""
    except (OSError, ValueError):
        return ""
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    return checked(decoder.decode(raw, final=len(raw) < BEGINNING)).strip()


def checked(text: str) -> str:
    """Return what was read from standard input; UsageError if it had bytes that are not UTF-8."""
    invalid = _INVALID.search(text)
    if invalid is None:
        return text
    line = text.count("\n", 0, invalid.start()) + 1
    raise UsageError(
        f"standard input is not UTF-8: byte 0x{ord(invalid[0]) - 0xDC00:02x} in line {line}",
        kept="nothing was stored, and no model was asked",
        hint="convert it first, for example with: iconv -f latin1 -t utf-8",
    )
