"""A chat in a terminal: a prompt, an answer, a prompt. A line that starts with a slash is a command.

An answer is streamed, preceded by a spinner, and stopped by Ctrl-C.
"""

from __future__ import annotations

import json
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import closing
from typing import TextIO

from cortext.agents.llm.base import CallRequest
from cortext.agents.talk.slash import Suggestion
from cortext.agents.talk.turn import CallResult, Talk, Tick, cut_error
from cortext.agents.terminal.interrupt import interrupts_deferred, interrupts_raised, on_interrupt
from cortext.agents.terminal.prompt import InputHistory, Prompt
from cortext.config import folders
from cortext.errors import CortextError, ModelError, UsageError
from cortext.faces.terminal.markdown import Markdown
from cortext.faces.terminal.output import coloured, columns, note, paint
from cortext.faces.terminal.run import report
from cortext.model.answer import AnswerNote, AnswerText, Thinking
from cortext.model.wording import cut
from cortext.safety import terminal


def show_answer(talk: Talk, *, label: str = "thinking", on_call: Callable[[CallRequest], object] | None = None) -> None:
    """Ask for one answer, show and store it. Raises ModelError after the partial answer is shown and stored.

    After Ctrl-C, `talk.stopped` is set. `on_call` shows a tool call in the face's own way.
    """
    out = sys.stdout
    printer = Markdown(out.write, colour=coloured(out), columns=columns() if out.isatty() else 0)
    spinner = Spinner(sys.stderr if not out.isatty() else out, label)
    with on_interrupt(talk.stop), closing(talk.answer()) as answer:
        try:
            for event in answer:
                if isinstance(event, Tick):
                    if printer.shown:
                        printer.flush()
                        out.flush()
                    else:
                        spinner.turn()
                    continue
                if isinstance(event, Thinking):
                    continue  # stored but not shown; the spinner shows that work is going on
                spinner.clear()
                if isinstance(event, AnswerText):
                    printer.feed(event.text)
                    out.flush()
                elif isinstance(event, AnswerNote):
                    print(paint(terminal.line(event.text), "dim", stream=sys.stderr), file=sys.stderr)
                elif isinstance(event, CallRequest):
                    printer.end()
                    (on_call or show_call)(event)
                elif isinstance(event, CallResult) and event.part.is_error:
                    error = paint(terminal.line(f"← {event.part.output[:200]}"), "red", stream=sys.stderr)
                    print(error, file=sys.stderr)
        finally:
            spinner.clear()
            printer.end()
            out.flush()


def store_answer(talk: Talk) -> None:
    """Ask for one answer and store it, without showing it."""
    with on_interrupt(talk.stop), closing(talk.answer()) as answer:
        for _ in answer:
            pass


def answer_json(talk: Talk, session_id: str, **more: str) -> dict[str, object]:
    """Return the answer of a turn as JSON data."""
    reply = talk.reply
    return {
        "session_id": session_id,
        **more,
        "model": talk.model.name,
        "reply": reply.content if reply else "",
        "partial": bool(reply and reply.partial),
        "stop": "stopped" if talk.stopped else talk.cut_reason or "end",
        "tokens": reply.tokens if reply else 0,
        "usage": (reply.usage if reply else None) or {},
    }


def show_call(call: CallRequest) -> None:
    """Show a tool call on one line of standard error."""
    given = json.dumps(call.input, ensure_ascii=False)
    line = terminal.line(f"→ {call.name} {cut(given, 120)}")
    print(paint(line, "dim", stream=sys.stderr), file=sys.stderr)


_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class Spinner:
    """`turn` it regularly, `clear` it before anything else is written. On a pipe it does nothing."""

    def __init__(self, stream: TextIO, label: str = "thinking") -> None:
        self._stream, self.label = stream, label
        self._live = stream.isatty()
        self._begin, self._shown = time.monotonic(), False

    def turn(self) -> None:
        """Show the next frame, with the elapsed seconds."""
        if not self._live:
            return
        elapsed = time.monotonic() - self._begin
        frame = _FRAMES[int(elapsed * 10) % len(_FRAMES)]
        self._stream.write(f"\r\x1b[K\x1b[2m{frame} {self.label} {elapsed:.0f} s (Ctrl-C stops)\x1b[0m")
        self._stream.flush()
        self._shown = True

    def clear(self) -> None:
        """Remove it from the screen."""
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._shown = False


LEAVE = ("/exit", "/quit")


class TalkLoop(ABC):
    """The state of one chat in one terminal. A face implements what happens to messages and commands."""

    def __init__(self, program: str) -> None:
        self.program = program
        self.prompt = Prompt(InputHistory(os.path.join(folders.state(), f"{program}-history")), self.complete)
        self.code = 0  # the exit code, for a script that feeds the prompt
        self.unsent = ""  # a message that could not be stored: it is offered at the next prompt

    # ── implemented by a face ────────────────────────────────────────────────────────────────────────

    @abstractmethod
    def label(self) -> str:
        """Return the text of the prompt."""

    @abstractmethod
    def complete(self, text: str) -> list[Suggestion]:
        """Return what Tab offers after this text."""

    @abstractmethod
    def command(self, line: str) -> None:
        """Run a line that starts with a slash."""

    @abstractmethod
    def say(self, text: str) -> Talk | None:
        """Store the user's message; return the turn that answers it, or None."""

    @abstractmethod
    def first_prompt(self) -> None:
        """Do slow work, now that the first prompt is on the screen."""

    def show_call(self, call: CallRequest) -> None:
        """Show a tool call of the model."""
        show_call(call)

    @abstractmethod
    def answered(self, talk: Talk) -> None:
        """Handle the end of an answer, including one that failed or was stopped."""

    @abstractmethod
    def leave(self) -> bool:
        """Handle the wish to leave; return whether to leave now."""

    # ── the loop ─────────────────────────────────────────────────────────────────────────────────────

    def run(self) -> int:
        """Run until the user leaves; return the exit code."""
        with interrupts_deferred():
            shown: Callable[[], object] | None = self.first_prompt
            while True:
                text, self.unsent = self.unsent, ""
                try:
                    text = self.prompt.ask(self.label(), default=text, shown=shown)
                except KeyboardInterrupt:
                    note("press Ctrl-D or type /exit to leave")
                    continue
                except EOFError:
                    text = LEAVE[0]
                except UsageError as error:
                    self.fail(error)
                    continue
                finally:
                    shown = None
                if self._step(text):
                    return self.code

    def _step(self, text: str) -> bool:
        """Handle a command or a message; return whether to leave."""
        if not text.startswith("/"):
            if text.strip():
                self.turn(text)
            return False
        try:
            with interrupts_raised(echo=False):
                if text.strip() in LEAVE:
                    return self.leave()
                self.command(text)
        except KeyboardInterrupt:
            note("stopped")
        except CortextError as error:
            self.fail(error)
        return False

    def turn(self, text: str) -> None:
        """Store the message, then show and store the answer."""
        try:
            talk = self.say(text)
        except CortextError as error:
            if self.prompt.live:
                self.unsent = text
                error.kept = "your message is at the prompt again; nothing was stored"
            self.fail(error)
            return
        if talk is not None:
            self.answer(talk)

    def answer(self, talk: Talk) -> None:
        """Ask for the next answer and show it. Slow work comes before the notes, because people type after them."""
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
            kept = "the partial answer is stored, but not sent again" if talk.reply else "your message is stored"
            note(f"stopped; {kept}; /retry asks again")
        elif failed is None and talk.cut_reason:
            failed = cut_error(talk.cut_reason, "use /continue to continue where it stopped")
        if failed is not None:
            self.fail(failed)
        for line in talk.view.take_notices():
            note(line)
        if self.prompt.live:
            print()

    def fail(self, error: CortextError) -> None:
        """Report an error, and continue."""
        self.code = error.exit_status
        report(self.program, error)
