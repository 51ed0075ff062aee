"""`aur spawn "question"`: one answer on standard output, for scripts; the session is kept as any other."""

from __future__ import annotations

import sys
from argparse import Namespace
from contextlib import closing
from io import TextIOWrapper

from cortext.errors import CortextError, UsageError
from cortext.faces.aur.held import Declined, Held, open_session
from cortext.faces.aur.sessions import print_json
from cortext.faces.aur.spawn import expire
from cortext.faces.terminal.style import paint
from cortext.faces.terminal.talk.answer import show_answer
from cortext.faces.terminal.talk.interrupt import on_interrupt
from cortext.model.status import COMPLETED, INTERRUPTED
from cortext.wiring import Wiring


def ask_once(wiring: Wiring, options: Namespace) -> int:
    """Ask, answer, end."""
    question = " ".join(piped() if word == "-" else word for word in options.prompt)
    if not question.strip():
        raise UsageError("an empty question", hint='aur spawn "question" --agent NAME')
    try:
        held = open_session(wiring, options)
    except Declined:
        return 0
    with held:
        expire(wiring)
        code = 0
        try:
            held.talk.say(question)
            if options.json:
                with on_interrupt(held.talk.stop), closing(held.talk.answer()) as answer:
                    for _ in answer:
                        pass
            else:
                show_answer(held.talk)
            code = 130 if held.talk.stopped else 0
        except (CortextError, KeyboardInterrupt):
            _end(held, INTERRUPTED)
            raise
        held.end(INTERRUPTED if code else COMPLETED)
    if options.json:
        _print(held)
    elif sys.stderr.isatty():
        print(paint(f"Go on: aur spawn --resume {held.session.id}", "dim", stream=sys.stderr), file=sys.stderr)
    return code


def piped() -> str:
    """What comes through the pipe; bytes that are no text are kept as they are."""
    if isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")
    return sys.stdin.read().strip()


def _end(held: Held, status: str) -> None:
    """The end of one that went wrong: the first error is the one to tell."""
    try:
        held.end(status)
    except CortextError:
        pass


def _print(held: Held) -> None:
    reply = held.talk.reply
    answer = {
        "session_id": held.session.id,
        "agent": held.agent.name,
        "model": held.model.name,
        "reply": reply.content if reply else "",
        "partial": bool(reply and reply.partial),
        "tokens": reply.tokens if reply else 0,
        "usage": (reply.usage if reply else None) or {},
    }
    print_json(answer)
