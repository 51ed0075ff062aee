"""`aur spawn "question"`: one answer on standard output, for scripts. The session is kept like any other."""

from __future__ import annotations

import sys
from argparse import Namespace

from cortext.agents.aur.open_session import Declined, OpenSession, open_session
from cortext.agents.aur.sessions import expire
from cortext.agents.talk.turn import cut_error
from cortext.agents.terminal.answer import answer_json, show_answer, store_answer
from cortext.agents.terminal.piped import question_of
from cortext.errors import CortextError, UsageError
from cortext.faces.terminal.output import print_json
from cortext.faces.terminal.run import report
from cortext.faces.terminal.style import paint
from cortext.model.status import COMPLETED, INTERRUPTED
from cortext.wiring.stores import Stores


def ask_once(stores: Stores, options: Namespace) -> int:
    """Ask the question, print the answer and complete the session; return the exit code."""
    question = question_of(options.prompt)
    if not question.strip():
        raise UsageError("the question is empty", hint='use: aur spawn "question" --agent NAME')
    try:
        opened = open_session(stores, options)
    except Declined:
        return 0
    with opened:
        expire(stores.settings)
        code = 0
        cut = None
        try:
            opened.talk.say(question)
            if options.json:
                store_answer(opened.talk)
            else:
                show_answer(opened.talk)
            code = 130 if opened.talk.stopped else 0
            if opened.talk.cut_reason:
                cut = cut_error(
                    opened.talk.cut_reason, f'continue with: aur spawn --resume {opened.session.id} "go on"'
                )
                code = cut.exit_status
        except (CortextError, KeyboardInterrupt) as error:
            _end_quietly(opened, INTERRUPTED)
            if isinstance(error, CortextError):
                error.session_id = opened.session.id
                error.reply = opened.talk.reply.text if opened.talk.reply is not None else ""
            raise
        opened.end(INTERRUPTED if code == 130 else COMPLETED)
    if options.json:
        print_json(answer_json(opened.talk, opened.session.id, agent=opened.agent.name))
    elif cut is not None:
        report("aur", cut)
    elif sys.stderr.isatty():
        print(
            paint(f"Continue with: aur spawn --resume {opened.session.id}", "dim", stream=sys.stderr), file=sys.stderr
        )
    return code


def _end_quietly(opened: OpenSession, status: str) -> None:
    """Complete the session without raising: the error that came first is the one to report."""
    try:
        opened.end(status)
    except CortextError:
        pass
