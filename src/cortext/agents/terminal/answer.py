"""One answer of a model on the screen: streamed, preceded by a spinner, stopped by Ctrl-C."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import closing
from typing import TextIO

from cortext.agents.talk.turn import Call, Note, Result, Talk, Text, Thinking, Tick
from cortext.agents.terminal.interrupt import on_interrupt
from cortext.faces.terminal.markdown import Markdown
from cortext.faces.terminal.style import coloured, columns, paint
from cortext.safety import terminal


def show_answer(talk: Talk, *, label: str = "thinking", on_call: Callable[[Call], object] | None = None) -> None:
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
                if isinstance(event, Text):
                    printer.feed(event.text)
                    out.flush()
                elif isinstance(event, Note):
                    print(paint(terminal.line(event.text), "dim", stream=sys.stderr), file=sys.stderr)
                elif isinstance(event, Call):
                    printer.end()
                    (on_call or show_call)(event)
                elif isinstance(event, Result) and event.part.is_error:
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


def show_call(call: Call) -> None:
    """Show a tool call on one line of standard error."""
    given = json.dumps(call.input, ensure_ascii=False)
    line = terminal.line(f"→ {call.name} {given if len(given) <= 120 else given[:119] + '…'}")
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
