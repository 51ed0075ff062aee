"""`aur spawn -i`: a conversation with an agent in the terminal."""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
from argparse import Namespace
from types import FrameType

from cortext.agents.aur import slash
from cortext.agents.aur.open_session import Declined, OpenSession, open_session
from cortext.agents.aur.sessions import expire, fresh_listing
from cortext.agents.talk.expiry import drop_abandoned
from cortext.agents.talk.slash import Choice
from cortext.agents.talk.turn import Talk
from cortext.agents.terminal.loop import TalkLoop
from cortext.agents.terminal.prompt import ask_which
from cortext.errors import CortextError
from cortext.faces.terminal.output import note
from cortext.faces.terminal.style import paint
from cortext.model.amounts import amount
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
        loop = Loop(opened)
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


class Loop(TalkLoop):
    """A conversation with an agent."""

    def __init__(self, opened: OpenSession) -> None:
        super().__init__("aur")
        self._context = slash.Context(opened, live=self.prompt.live, answer=lambda: self.answer(self.opened.talk))

    @property
    def opened(self) -> OpenSession:
        """The session that is open."""
        return self._context.opened

    def label(self) -> str:
        return f"{self.opened.agent.name}> "

    def complete(self, text: str) -> list[Choice]:
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
