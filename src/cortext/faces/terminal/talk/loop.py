"""The talk in a terminal: a prompt, an answer, a prompt. What begins with a slash is a command."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable

from cortext.config import folders
from cortext.errors import CortextError, ModelError
from cortext.faces.terminal.output import note
from cortext.faces.terminal.run import report
from cortext.faces.terminal.talk.answer import show_answer, show_call
from cortext.faces.terminal.talk.history import History
from cortext.faces.terminal.talk.interrupt import raising, remembering
from cortext.faces.terminal.talk.prompt import Prompt
from cortext.services.talk.slash import Choice
from cortext.services.talk.turn import Call, Talk, cut_error

LEAVE = ("/exit", "/quit")


class TalkLoop(ABC):
    """The state of one talk in one terminal. A face says what becomes of words and commands."""

    def __init__(self, program: str) -> None:
        self.program = program
        self.prompt = Prompt(History(os.path.join(folders.state(), f"{program}-history")), self.complete)
        self.code = 0  # what a script that feeds us is told at the end
        self.unsent = ""  # words that could not be stored: they stand at the next prompt

    # ── what a face fills in ─────────────────────────────────────────────────────────────────────────

    @abstractmethod
    def label(self) -> str:
        """The prompt."""

    @abstractmethod
    def complete(self, text: str) -> list[Choice]:
        """What Tab offers after this text."""

    @abstractmethod
    def command(self, line: str) -> None:
        """Run a line that begins with a slash."""

    @abstractmethod
    def say(self, words: str) -> Talk | None:
        """Store the user's words; the talk that is to answer them, or None."""

    @abstractmethod
    def first_prompt(self) -> None:
        """The first prompt is on the screen: now there is time for what is slow."""

    def show_call(self, call: Call) -> None:
        """Show that the model uses a tool."""
        show_call(call)

    @abstractmethod
    def answered(self, talk: Talk) -> None:
        """An answer is over, also one that failed or was stopped."""

    @abstractmethod
    def leave(self) -> bool:
        """The user wants to leave; whether we may go."""

    # ── the loop ─────────────────────────────────────────────────────────────────────────────────────

    def run(self) -> int:
        """Until the user leaves; the exit code."""
        with remembering():
            shown: Callable[[], object] | None = self.first_prompt
            while True:
                words, self.unsent = self.unsent, ""
                try:
                    words = self.prompt.ask(self.label(), default=words, shown=shown)
                except KeyboardInterrupt:
                    note("Ctrl-D or /exit leaves")
                    continue
                except EOFError:
                    words = LEAVE[0]
                finally:
                    shown = None
                if self._step(words):
                    return self.code

    def _step(self, words: str) -> bool:
        """What was typed: for us, or for the model. Whether we leave."""
        if not words.startswith("/"):
            if words.strip():
                self.turn(words)
            return False
        try:
            with raising(echo=False):
                if words.strip() in LEAVE:
                    return self.leave()
                self.command(words)
        except KeyboardInterrupt:
            note("stopped")
        except CortextError as error:
            self.fail(error)
        return False

    def turn(self, words: str) -> None:
        """Store the words, then show and store the answer."""
        try:
            talk = self.say(words)
        except CortextError as error:
            if self.prompt.live:
                self.unsent = words
                error.kept = "your message is at the prompt again; nothing was stored"
            self.fail(error)
            return
        if talk is not None:
            self.answer(talk)

    def answer(self, talk: Talk) -> None:
        """Ask for the next turn and show it. What is slow comes before the notes: after them people type on."""
        failed: CortextError | None = None
        try:
            show_answer(talk, on_call=self.show_call)
        except CortextError as error:
            failed = error
        finally:
            self.answered(talk)
        if isinstance(failed, ModelError):
            failed.hint = f"{failed.hint}; /retry asks again".removeprefix("; ")
        elif failed is None and talk.stopped:
            came = "what came is in the file, and out of the context" if talk.reply else "your words are stored"
            note(f"stopped; {came}; /retry asks again")
        elif failed is None and talk.cut_reason:
            failed = cut_error(talk.cut_reason, "/continue goes on where it stopped")
        if failed is not None:
            self.fail(failed)
        for line in talk.view.take_notices():
            note(line)
        if self.prompt.live:
            print()

    def fail(self, error: CortextError) -> None:
        """Say what went wrong, and go on."""
        self.code = error.exit_status
        report(self.program, error)
