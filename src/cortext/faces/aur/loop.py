"""The talk itself: a prompt, an answer, a prompt. What begins with a slash is for us (slash.py)."""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
from argparse import Namespace
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

from cortext.config import folders
from cortext.errors import CortextError, ModelError, WriteFailed
from cortext.faces.aur import slash
from cortext.faces.aur.held import Declined, Held, note, open_session
from cortext.faces.aur.spawn import expire
from cortext.faces.terminal.run import report
from cortext.faces.terminal.style import paint
from cortext.faces.terminal.talk.answer import show_answer
from cortext.faces.terminal.talk.history import History
from cortext.faces.terminal.talk.interrupt import on_interrupt, raising, remembering
from cortext.faces.terminal.talk.prompt import Choice, Prompt, ask_which
from cortext.safety import terminal
from cortext.services.talk.turn import cut_error
from cortext.wiring.stores import Stores


def talk(stores: Stores, options: Namespace) -> int:
    """`aur spawn -i` and `aur spawn --resume`: until the person leaves."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    try:
        held = open_session(stores, options)
    except Declined:
        return 0
    with held:
        loop = Loop(held)
        loop.greet(resumed=options.resume is not None)
        try:
            with remembering():
                return loop.run()
        finally:
            loop.let_go()


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    # What came of an answer is stored on the way out; the session is then shown as interrupted.
    raise SystemExit(128 + number)


class Loop:
    """The state of one talk in one terminal."""

    def __init__(self, held: Held) -> None:
        self.held = held
        self.prompt = Prompt(History(os.path.join(folders.state(), "aur-history")), self._complete)
        self.code = 0  # what a script that feeds us is told at the end
        self.words = ""  # words that could not be stored: they stand at the next prompt

    def _complete(self, text: str) -> list[Choice]:
        return slash.complete(self, text)

    def greet(self, *, resumed: bool) -> None:
        """Who is there, and how to get along."""
        if not self.prompt.live:
            return
        held = self.held
        where = f"{held.session.id} ({held.turns} turns)" if resumed else held.session.id
        source = "" if held.agent.source == "built in" else f" ({held.agent.source})"
        print(paint(terminal.line(f"{held.agent.name}{source} · {held.model.name} · {where}"), "dim"))
        if resumed:
            slash.last_words(self)
            if held.view.waits:
                note("your last words have no answer yet: /retry asks again")
        else:
            print(paint("/help shows what you can do; Ctrl-C stops an answer, Ctrl-D leaves.", "dim"))

    def run(self) -> int:
        """Until /exit."""
        shown: Callable[[], object] | None = self._begun
        while True:
            try:
                label, words, self.words = f"{self.held.agent.name}> ", self.words, ""
                words = self.prompt.ask(label, default=words, shown=shown)
            except KeyboardInterrupt:
                note("Ctrl-D or /exit leaves")
                continue
            except EOFError:
                words = "/exit"
            finally:
                shown = None
            try:
                if self.step(words):
                    return self.code
            except KeyboardInterrupt:  # in a command of ours
                print()
                self.held.see_again()  # it may have come between the file and the view

    def step(self, words: str) -> bool:
        """What was typed: for us, or for the agent. Whether we leave."""
        if not words.strip():
            return False
        if words.startswith("/"):
            with raising():
                return slash.run(self, words) and self.leave()
        self.turn(words)
        return False

    def _begun(self) -> None:
        """The first prompt is on the screen: now there is time for what is slow."""
        self.held.talk.warm()
        self._drop_abandoned()
        child = expire(self.held.stores.settings)
        if child:
            threading.Thread(target=os.waitpid, args=(child, 0), daemon=True).start()

    def _drop_abandoned(self) -> None:
        """Tidy up after talks that were killed before their first word."""
        from cortext.faces.aur.sessions import fresh
        from cortext.services.talk.expiry import drop_abandoned

        stores = self.held.stores
        try:
            drop_abandoned(fresh(stores), stores.spawn_store(timeout=0.0).store)
        except (CortextError, OSError, sqlite3.Error):
            pass  # the next start tries again

    def turn(self, words: str) -> None:
        """Store the words, then the answer. Ctrl-C since Enter stops the turn, and nothing else."""
        self.held.talk.begin()
        with on_interrupt(self.held.talk.stop):
            self._turn(words)

    def _turn(self, words: str) -> None:
        try:
            self.held.talk.say(words)
        except WriteFailed as error:
            if self.prompt.live:
                self.words = words
                error.kept = "your words stand at the prompt again; nothing half is in the file"
            self.fail(error)
            return
        except CortextError as error:
            self.fail(error)
            return
        self.answer()

    def answer(self) -> None:
        """Ask for the next turn and show it."""
        talk = self.held.talk
        try:
            show_answer(talk)
            if talk.stopped:
                came = "what came is in the file, and out of the context" if talk.reply else "your words are stored"
                note(f"stopped; {came}; /retry asks again")
            elif talk.cut:
                self.fail(cut_error(talk.cut, "/continue goes on where it stopped"))
        except ModelError as error:
            error.hint = f"{error.hint}; /retry asks again".removeprefix("; ")
            self.fail(error)
        except CortextError as error:
            self.fail(error)
        for line in self.held.view.news():
            note(line)
        if self.prompt.live:
            print()

    def fail(self, error: CortextError) -> None:
        """Say what went wrong, and go on."""
        self.code = error.exit_status
        report("aur", error)

    def let_go(self) -> None:
        """The end, by whatever way. A talk in which nothing was said leaves no session."""
        held = self.held  # not always the one that it began with: see /fork
        try:
            if held.turns == 0 and held.is_empty:
                held.discard()
        except CortextError:
            pass  # it is empty, and shown as interrupted
        finally:
            held.__exit__()

    def leave(self) -> bool:
        """Complete the session; whether we may go."""
        held = self.held
        if held.turns == 0 and held.is_empty:
            if self.prompt.live:
                print(paint("Nothing was said, so no session was kept.", "dim"))
                self.code = 0
            return True
        try:
            held.end()
        except CortextError as error:
            self.fail(error)
            lost = " The last reply is only on the screen." if held.talk.pending else ""
            return not self.prompt.live or ask_which(f"Leave anyway?{lost}", ("yes", "no")) == "yes"
        if self.prompt.live:
            print(paint(f"Saved. Go on later: aur spawn --resume {held.session.id}", "dim"))
            self.code = 0
        return True
