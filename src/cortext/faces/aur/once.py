"""`aur spawn "question"`: one answer on standard output, for scripts; the session is kept as any other."""

from __future__ import annotations

import sys
from argparse import Namespace

from cortext.errors import CortextError, UsageError
from cortext.faces.aur.held import Declined, Held, open_session
from cortext.faces.aur.sessions import expire
from cortext.faces.terminal.output import print_json
from cortext.faces.terminal.run import report
from cortext.faces.terminal.style import paint
from cortext.faces.terminal.talk.answer import answer_json, show_answer, store_answer
from cortext.faces.terminal.talk.piped import question_of
from cortext.model.status import COMPLETED, INTERRUPTED
from cortext.services.talk.turn import cut_error
from cortext.wiring.stores import Stores


def ask_once(stores: Stores, options: Namespace) -> int:
    """Ask, answer, end."""
    question = question_of(options.prompt)
    if not question.strip():
        raise UsageError("an empty question", hint='aur spawn "question" --agent NAME')
    try:
        held = open_session(stores, options)
    except Declined:
        return 0
    with held:
        expire(stores.settings)
        code = 0
        cut = None
        try:
            held.talk.say(question)
            if options.json:
                store_answer(held.talk)
            else:
                show_answer(held.talk)
            code = 130 if held.talk.stopped else 0
            if held.talk.cut:
                cut = cut_error(held.talk.cut, f'go on: aur spawn --resume {held.session.id} "go on"')
                code = cut.exit_status
        except (CortextError, KeyboardInterrupt) as error:
            _end(held, INTERRUPTED)
            if isinstance(error, CortextError):
                error.session_id = held.session.id
            raise
        held.end(INTERRUPTED if code == 130 else COMPLETED)
    if options.json:
        print_json(answer_json(held.talk, held.session.id, agent=held.agent.name))
    elif cut is not None:
        report("aur", cut)
    elif sys.stderr.isatty():
        print(paint(f"Go on: aur spawn --resume {held.session.id}", "dim", stream=sys.stderr), file=sys.stderr)
    return code


def _end(held: Held, status: str) -> None:
    """The end of one that went wrong: the first error is the one to tell."""
    try:
        held.end(status)
    except CortextError:
        pass
