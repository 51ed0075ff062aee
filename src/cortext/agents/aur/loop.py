"""`aur spawn`: a conversation with an agent in the terminal (`-i`), or one answer on standard output, for scripts.

The session of a single answer is kept like any other.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
import threading
from argparse import Namespace
from types import FrameType

from cortext.agents.aur import slash
from cortext.agents.aur.open_session import Declined, OpenSession, open_session
from cortext.agents.aur.sessions import expire, fresh_listing
from cortext.agents.talk.sessions import drop_abandoned
from cortext.agents.talk.slash import Suggestion
from cortext.agents.talk.turn import Talk, cut_error
from cortext.agents.terminal.loop import TalkLoop, answer_json, show_answer, store_answer
from cortext.agents.terminal.prompt import ask_which, question_of
from cortext.errors import CortextError, UsageError
from cortext.faces.terminal.output import note, paint, print_json
from cortext.faces.terminal.run import report
from cortext.model.session import COMPLETED, INTERRUPTED
from cortext.model.wording import amount
from cortext.safety import terminal
from cortext.wiring.stores import Stores


def talk(stores: Stores, options: Namespace) -> int:
    """Run `aur spawn -i` and `aur spawn --resume` until the user leaves; return the exit code."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    try:
        opened = open_session(stores, options)
    except Declined:
        return 0
    with opened:
        loop = AurLoop(opened)
        loop.greet(resumed=options.resume is not None)
        try:
            return loop.run()
        finally:
            loop.release()


def _leave(number: int, frame: FrameType | None) -> None:
    # Python drops an exception that is raised in a callback of the import system: try again when that is done.
    if frame is not None and frame.f_code.co_filename.startswith("<frozen importlib"):
        signal.signal(signal.SIGALRM, lambda _, later: _leave(number, later))
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        return
    # The part of an answer that arrived is stored on the way out; the session then has the status interrupted.
    raise SystemExit(128 + number)


class AurLoop(TalkLoop):
    """A conversation with an agent."""

    def __init__(self, opened: OpenSession) -> None:
        super().__init__("aur")
        self._context = slash.CommandContext(
            opened, live=self.prompt.live, answer=lambda: self.answer(self.opened.talk)
        )

    @property
    def opened(self) -> OpenSession:
        """The session that is open."""
        return self._context.opened

    def label(self) -> str:
        return f"{self.opened.agent.name}> "

    def complete(self, text: str) -> list[Suggestion]:
        return slash.complete(self._context, text)

    def command(self, line: str) -> None:
        try:
            slash.run(self._context, line)
        except KeyboardInterrupt:
            self.opened.reload_view()  # the interrupt may have come after the write and before the update of the view
            raise

    def say(self, words: str) -> Talk:
        self.opened.talk.begin()  # a Ctrl-C from now on stops this turn
        self.opened.talk.say(words)
        return self.opened.talk

    def answered(self, talk: Talk) -> None:
        """Do nothing: the session stays open."""

    def first_prompt(self) -> None:
        self.opened.talk.warm()
        self._drop_abandoned()
        child = expire(self.opened.stores.settings)
        if child:
            threading.Thread(target=os.waitpid, args=(child, 0), daemon=True).start()

    def _drop_abandoned(self) -> None:
        """Delete empty sessions that were left by killed processes."""
        stores = self.opened.stores
        try:
            drop_abandoned(fresh_listing(stores), stores.spawn_store(timeout=0.0).store)
        except (CortextError, OSError, sqlite3.Error):
            pass  # the next start tries again

    def greet(self, *, resumed: bool) -> None:
        """Show the agent, the model and the session, and either the last messages or how to get help."""
        if not self.prompt.live:
            return
        opened = self.opened
        where = f"{opened.session.id} ({amount(opened.turns, 'turn')})" if resumed else opened.session.id
        source = "" if opened.agent.source == "built in" else f" ({opened.agent.source})"
        print(paint(terminal.line(f"{opened.agent.name}{source} · {opened.model.name} · {where}"), "dim"))
        if resumed:
            slash.last_messages(self._context)
            if opened.view.awaits_answer:
                note("your last message has no answer yet; /retry asks again")
        else:
            print(paint("/help lists the commands; Ctrl-C stops an answer, Ctrl-D leaves.", "dim"))

    def release(self) -> None:
        """Release the session, however the loop ended. One without messages is discarded."""
        opened = self.opened  # /fork may have replaced the session that the loop started with
        try:
            if opened.turns == 0 and opened.is_empty:
                opened.discard()
        except CortextError:
            pass  # it stays as an empty session, which a later start deletes
        finally:
            opened.__exit__()

    def leave(self) -> bool:
        """Complete the session; return whether the loop may end."""
        opened = self.opened
        if opened.turns == 0 and opened.is_empty:
            if self.prompt.live:
                print(paint("No messages were sent, so no session was kept.", "dim"))
                self.code = 0
            return True
        try:
            opened.end()
        except CortextError as error:
            self.fail(error)
            lost = " The last reply is not stored and will be lost." if opened.talk.pending else ""
            return not self.prompt.live or ask_which(f"Leave anyway?{lost}", ("yes", "no")) == "yes"
        if self.prompt.live:
            print(paint(f"Saved. Continue with: aur spawn --resume {opened.session.id}", "dim"))
            self.code = 0
        return True


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
