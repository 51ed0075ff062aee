"""The input line: history with the arrow keys, Tab completion, several lines, typing ahead.

prompt_toolkit draws it on a terminal; elsewhere lines are read from standard input as they are. It is imported after a
plain prompt is on the screen, so that the first prompt appears immediately.
"""

from __future__ import annotations

import sys
import termios
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from typing import TYPE_CHECKING

from cortext.agents.talk.slash import Complete
from cortext.agents.terminal.history import History
from cortext.agents.terminal.interrupt import answer_to, interrupts_raised, mark_pastes, pending_interrupt
from cortext.agents.terminal.piped import checked
from cortext.faces.terminal.style import coloured
from cortext.safety import terminal

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession


class Enter:
    """What decides whether Enter sends: see `prompt_parts.keys`."""

    typed_ahead = False  # whether keys were pressed before the prompt was shown, while an answer was written


class Prompt:
    """Asks for the next message. Raises EOFError at Ctrl-D, KeyboardInterrupt at Ctrl-C."""

    def __init__(self, history: History, complete: Complete) -> None:
        self.history, self._complete = history, complete
        self.live = sys.stdin.isatty() and sys.stdout.isatty()
        self._session: PromptSession[str] | None = None
        self._enter = Enter()
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
        first = self._session is None
        with _keys_only():
            if first and not default:
                self._announce(label)
            session = self._session = self._session or self._start()
            if first and not default:
                sys.stdout.write("\r\x1b[K")
                sys.stdout.flush()
            pending_interrupt().take()  # the answer is complete: there is nothing left to stop
            self._enter.typed_ahead = not first and _is_waiting(session)
            # A callable, so that markup in the label stays text. We handle signals, so that none is ever unhandled.
            text = session.prompt(
                lambda: [("bold ansigreen" if coloured() else "", label)],
                default=default,
                pre_run=lambda: _call(shown),
                handle_sigint=False,
            )
        if _interrupted_after_enter(session):
            pending_interrupt().pressed = True
        if text.strip():
            self.history.add(text)
        return text

    def _announce(self, label: str) -> None:
        """Show the prompt as plain text; what is typed from now on is read by the real prompt."""
        from cortext.faces.terminal.style import paint

        sys.stdout.write(paint(label, "bold", "green"))
        sys.stdout.flush()

    def _start(self) -> PromptSession[str]:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.shortcuts import CompleteStyle

        from cortext.agents.terminal.prompt_parts import PromptCompleter, PromptHistory, keys

        return PromptSession(
            history=PromptHistory(self.history),
            completer=PromptCompleter(self._complete),
            complete_while_typing=False,
            complete_style=CompleteStyle.READLINE_LIKE,
            reserve_space_for_menu=0,
            multiline=True,
            key_bindings=keys(self._enter),
            prompt_continuation=lambda width, line, wrapped: "." * max(0, width - 1) + " ",
            erase_when_done=False,
        )


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


def _interrupted_after_enter(session: PromptSession[str]) -> bool:
    """Whether Ctrl-C was pressed right after Enter, while it was still a key and not yet a signal.

    All other keys are kept for the next prompt.
    """
    from prompt_toolkit.input.typeahead import get_typeahead, store_typeahead
    from prompt_toolkit.keys import Keys

    source = session.app.input
    ahead = [*get_typeahead(source), *source.read_keys()]
    kept = [key for key in ahead if key.key != Keys.ControlC]
    store_typeahead(source, kept)
    return len(kept) < len(ahead)


def _is_waiting(session: PromptSession[str]) -> bool:
    """Whether keys were pressed before the prompt is shown."""
    from prompt_toolkit.input.typeahead import get_typeahead, store_typeahead

    source = session.app.input
    ahead = [*get_typeahead(source), *source.read_keys()]
    store_typeahead(source, ahead)
    return bool(ahead)


def _call(shown: Callable[[], object] | None) -> None:
    if shown is not None:
        shown()


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
