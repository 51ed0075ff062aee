"""The input line: history with the arrow keys, Tab completion, several lines, typing ahead.

prompt_toolkit draws it on a terminal; elsewhere lines are read from standard input as they are. It is imported after a
plain prompt is on the screen, so that the first prompt appears immediately.
"""

from __future__ import annotations

import sys
import termios
from collections.abc import Callable, Sequence
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any

from cortext.faces.terminal.style import coloured
from cortext.faces.terminal.talk.history import History
from cortext.faces.terminal.talk.interrupt import answer_to, interrupts_raised, pending_interrupt
from cortext.safety import terminal
from cortext.services.talk.slash import Complete

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession


class Prompt:
    """Asks for the next message. Raises EOFError at Ctrl-D, KeyboardInterrupt at Ctrl-C."""

    def __init__(self, history: History, complete: Complete) -> None:
        self.history, self._complete = history, complete
        self.live = sys.stdin.isatty() and sys.stdout.isatty()
        self._session: PromptSession[str] | None = None
        self._before: list[Any] = []  # the terminal settings to restore
        if not self.live and isinstance(sys.stdin, TextIOWrapper):
            sys.stdin.reconfigure(errors="surrogateescape")  # preserves bytes that are not UTF-8

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
                return _plain_input()
        first = self._session is None
        if first and not default:
            self._announce(label)
        session = self._session = self._session or self._start()
        if first and not default:
            sys.stdout.write("\r\x1b[K")
            sys.stdout.flush()
        pending_interrupt().take()  # the answer is complete: there is nothing left to stop
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
        """Show the prompt as plain text without echo; what is typed from now on is read by the real prompt."""
        from cortext.faces.terminal.style import paint

        sys.stdout.write(paint(label, "bold", "green"))
        sys.stdout.flush()
        settings = termios.tcgetattr(sys.stdin.fileno())
        self._before = [*settings]
        # Ctrl-C stays a key: as a signal it would discard what was typed before it.
        settings[3] &= ~(termios.ECHO | termios.ICANON | termios.ISIG)
        termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, settings)

    def _start(self) -> PromptSession[str]:
        try:
            from prompt_toolkit import PromptSession
            from prompt_toolkit.shortcuts import CompleteStyle

            from cortext.faces.terminal.talk.prompt_parts import PromptCompleter, PromptHistory, keys

            return PromptSession(
                history=PromptHistory(self.history),
                completer=PromptCompleter(self._complete),
                complete_while_typing=False,
                complete_style=CompleteStyle.READLINE_LIKE,
                reserve_space_for_menu=0,
                multiline=True,
                key_bindings=keys(),
                prompt_continuation=lambda width, line, wrapped: "." * max(0, width - 1) + " ",
                erase_when_done=False,
            )
        finally:
            # prompt_toolkit restores the settings that it finds: they must be the original ones.
            if self._before:
                termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, self._before)


def _interrupted_after_enter(session: PromptSession[str]) -> bool:
    """Whether Ctrl-C was pressed right after Enter, while it was still a key and not yet a signal.

    Keys that follow it are kept for the next prompt; those before it are dropped, as a terminal does.
    """
    from prompt_toolkit.input.typeahead import get_typeahead, store_typeahead
    from prompt_toolkit.keys import Keys

    source = session.app.input
    ahead = [*get_typeahead(source), *source.read_keys()]
    interrupts = [index for index, key in enumerate(ahead) if key.key == Keys.ControlC]
    store_typeahead(source, ahead[interrupts[-1] + 1 :] if interrupts else ahead)
    return bool(interrupts)


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
