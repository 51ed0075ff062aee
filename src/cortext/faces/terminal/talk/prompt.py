"""The line where a person types: history with the arrow keys, Tab completion, several lines, typing ahead.

prompt_toolkit draws it on a terminal; elsewhere lines are read from standard input as they are. It is imported while
the prompt is on the screen already, so the first one is there at once.
"""

from __future__ import annotations

import sys
import termios
from collections.abc import Callable, Sequence
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any

from cortext.faces.terminal.style import coloured
from cortext.faces.terminal.talk.history import History
from cortext.faces.terminal.talk.interrupt import answer_to, current, raising
from cortext.safety import terminal
from cortext.services.talk.slash import Complete

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession


class Prompt:
    """Asks for the next words. EOFError at Ctrl-D, KeyboardInterrupt at Ctrl-C."""

    def __init__(self, history: History, complete: Complete) -> None:
        self.history, self._complete = history, complete
        self.live = sys.stdin.isatty() and sys.stdout.isatty()
        self._session: PromptSession[str] | None = None
        self._before: list[Any] = []  # how the terminal was
        if not self.live and isinstance(sys.stdin, TextIOWrapper):
            sys.stdin.reconfigure(errors="surrogateescape")  # bytes that are no text are kept, not refused

    def ask(self, label: str, *, default: str = "", shown: Callable[[], object] | None = None) -> str:
        """The words, without the line's end. `default` stands there already; `shown` is called when it is on screen."""
        label = terminal.line(label)
        if not self.live:
            if sys.stdin.isatty():  # typed by hand, and the answers go elsewhere
                sys.stderr.write(label)
                sys.stderr.flush()
            if shown is not None:
                shown()
            with raising():
                return _plain_words()
        first = self._session is None
        if first and not default:
            self._announce(label)
        session = self._session = self._session or self._start()
        if first and not default:
            sys.stdout.write("\r\x1b[K")
            sys.stdout.flush()
        current().take()  # the answer is there: what came late has nothing to stop
        # A callable, because text with markup in it must stay text. Signals stay ours: no moment without a handler.
        words = session.prompt(
            lambda: [("bold ansigreen" if coloured() else "", label)],
            default=default,
            pre_run=lambda: _call(shown),
            handle_sigint=False,
        )
        if _stopped_at_once(session):
            current().came = True
        if words.strip():
            self.history.add(words)
        return words

    def _announce(self, label: str) -> None:
        """The prompt as plain text, and no echo: what is typed from now on is read by the real one."""
        from cortext.faces.terminal.style import paint

        sys.stdout.write(paint(label, "bold", "green"))
        sys.stdout.flush()
        quiet = termios.tcgetattr(sys.stdin.fileno())
        self._before = [*quiet]
        # Ctrl-C stays a key: as a signal it would throw away what was typed before it.
        quiet[3] &= ~(termios.ECHO | termios.ICANON | termios.ISIG)
        termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, quiet)

    def _start(self) -> PromptSession[str]:
        try:
            from prompt_toolkit import PromptSession
            from prompt_toolkit.shortcuts import CompleteStyle

            from cortext.faces.terminal.talk.prompt_parts import OurCompleter, OurHistory, keys

            return PromptSession(
                history=OurHistory(self.history),
                completer=OurCompleter(self._complete),
                complete_while_typing=False,
                complete_style=CompleteStyle.READLINE_LIKE,
                reserve_space_for_menu=0,
                multiline=True,
                key_bindings=keys(),
                prompt_continuation=lambda width, line, wrapped: "." * max(0, width - 1) + " ",
                erase_when_done=False,
            )
        finally:
            # prompt_toolkit must find the terminal as it was: that is what it puts back at the end.
            if self._before:
                termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, self._before)


def _stopped_at_once(session: PromptSession[str]) -> bool:
    """Whether Ctrl-C was pressed right after Enter, while it was still a key and not yet a signal.

    Keys that follow it are kept for the next prompt; those before it are dropped, as a terminal does.
    """
    from prompt_toolkit.input.typeahead import get_typeahead, store_typeahead
    from prompt_toolkit.keys import Keys

    given = session.app.input
    ahead = [*get_typeahead(given), *given.read_keys()]
    places = [place for place, key in enumerate(ahead) if key.key == Keys.ControlC]
    store_typeahead(given, ahead[places[-1] + 1 :] if places else ahead)
    return bool(places)


def _call(shown: Callable[[], object] | None) -> None:
    if shown is not None:
        shown()


def _plain_words() -> str:
    """The next line of standard input, with those that it goes on in."""
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
    """A question with a few one-word answers (or their first letters), asked until one of them comes; "" for none."""
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
