"""The talk in the terminal: a prompt, an answer, a prompt. What begins with a slash is a command."""

from __future__ import annotations

import json
import os
import sys
import time

from cortext.config import folders
from cortext.errors import CortextError, ModelError, WriteFailed
from cortext.faces.alfred.drawing import show
from cortext.faces.terminal.run import report
from cortext.faces.terminal.style import paint
from cortext.faces.terminal.talk.answer import show_answer
from cortext.faces.terminal.talk.history import History
from cortext.faces.terminal.talk.interrupt import on_interrupt, raising, remembering
from cortext.faces.terminal.talk.prompt import Choice, Prompt
from cortext.model.message import USER, Message
from cortext.safety import terminal
from cortext.services.assistant.commands import NO_SESSION, Commands, created
from cortext.services.assistant.sessions import COMMAND_LINE
from cortext.services.assistant.turn import unanswered_calls, what_is_missing
from cortext.services.talk.turn import Call, Model, Talk, cut_error
from cortext.wiring.assistant import build_assistant, build_worker
from cortext.wiring.stores import Stores

LEAVE = ("/exit", "/quit")
AGAIN = ("/retry", "/continue")  # commands that are a turn
LINGER = 1.5  # seconds for vectors that are still being made when the user leaves; the worker makes the rest


class Loop:
    """The state of one talk in one terminal."""

    def __init__(self, stores: Stores, model: str = "") -> None:
        self.stores = stores
        self.assistant = build_assistant(stores, model)
        self.commands = Commands(self.assistant, idle_minutes=stores.settings.session.idle_minutes)
        self.prompt = Prompt(History(os.path.join(folders.state(), "alfred-history")), self._complete)
        self.code = 0  # what a script that feeds us is told at the end
        self.words = ""  # words that could not be stored: they stand at the next prompt
        self._unsaved: Talk | None = None  # a talk whose last reply the disk refused
        self._told = ""  # what the user was told of the model

    def _complete(self, text: str) -> list[Choice]:
        if not text.startswith("/"):
            return []
        length = len(text) - len(text.partition(" ")[0]) - 1 if " " in text else len(text)
        return [Choice(word, length, about) for word, about in self.commands.complete(text)]

    # ── the ways in ──────────────────────────────────────────────────────────────────────────────────

    def run(self, *, new: bool, session: str) -> int:
        """Until the user leaves."""
        self._begin(new, session)
        self._greet()
        with remembering():
            return self._run()

    def _run(self) -> int:
        first = True
        while True:
            try:
                words, self.words = self.words, ""
                words = self.prompt.ask("you> ", default=words, shown=self._meanwhile if first else None)
            except KeyboardInterrupt:
                _note("Ctrl-D or /exit leaves")
                continue
            except EOFError:
                words = LEAVE[0]
            finally:
                first = False
            if not words.strip():
                continue
            if words.strip() in LEAVE:
                self.assistant.background.finish(LINGER)
                return self.code
            if words.startswith("/"):
                self._command(words)
            else:
                self._turn(words)

    def once(self, question: str, *, new: bool, session: str, as_json: bool) -> int:
        """One question, one answer on standard output; errors end it."""
        again = question.strip() in AGAIN
        if question.startswith("/") and not again:
            self._begin(new, session)
            show(self.commands.run(COMMAND_LINE, question))
            return 0
        model = self._model()
        self._begin(new, session)
        session_id, made = self.assistant.sessions.ensure(COMMAND_LINE)
        try:
            return self._ask_once(session_id, made and not new, "" if again else question, model, as_json)
        except CortextError as error:
            error.session_id = session_id
            raise

    def _ask_once(self, session_id: str, made: bool, question: str, model: Model, as_json: bool) -> int:
        if made:
            _note(created(session_id))
        talk = self._talk(session_id, model)
        stored = self.assistant.say(talk, Message(role=USER, content=question)) if question else None
        if not question and not talk.view.waits and not talk.view.cut:
            _note("nothing waits for an answer")
            return 0
        try:
            if as_json:
                with on_interrupt(talk.stop):
                    for _ in talk.answer():
                        pass
            else:
                show_answer(talk, on_call=_note_call)
        finally:
            self._afterwards(session_id, stored, talk)
            self.assistant.background.finish(LINGER)
        cut = cut_error(talk.cut, "go on: alfred /continue") if talk.cut else None
        if as_json:
            self._print_json(session_id, talk)
        elif cut is not None:
            report("alfred", cut)
        return 130 if talk.stopped else cut.exit_status if cut else 0

    def _begin(self, new: bool, session: str) -> None:
        if session:
            answer = self.commands.run(COMMAND_LINE, f"/resume {session}")
            _note(answer.text)
        elif new:
            _note(self.commands.run(COMMAND_LINE, "/new").text)

    def _greet(self) -> None:
        if not self.prompt.live:
            return
        session_id = self.assistant.sessions.active(COMMAND_LINE)
        if session_id:
            _note(self.commands.run(COMMAND_LINE, "/session").text)
        _note("/help shows what you can do; Ctrl-C stops an answer, Ctrl-D leaves.")

    def _meanwhile(self) -> None:
        """The first prompt is on the screen: now there is time for what is slow."""
        if not self.prompt.live:
            return
        self.assistant.background.do(self._warm)
        self.assistant.background.do(self._look_after)

    def _warm(self) -> None:
        model = self.assistant.models.take()
        model.warm()
        self.assistant.models.give_back(model)

    def _look_after(self) -> None:
        """A pass of the worker: who has neither bot nor timer gets summaries too."""
        build_worker(self.stores, self.assistant, at_once=3).run(time.time())

    # ── a turn ───────────────────────────────────────────────────────────────────────────────────────

    def _command(self, words: str) -> None:
        if words.strip() in AGAIN:
            self._retry()
            return
        try:
            with raising(echo=False):
                show(self.commands.run(COMMAND_LINE, words))
        except KeyboardInterrupt:
            _note("stopped")
        except CortextError as error:
            self._fail(error)

    def _turn(self, words: str) -> None:
        try:
            if not self.assistant.auto_create and not self.assistant.sessions.active(COMMAND_LINE):
                _note(NO_SESSION)
                self.words = words if self.prompt.live else ""
                return
            model = self._model()
            session_id, made = self.assistant.sessions.ensure(COMMAND_LINE)
            if made:
                _note(created(session_id))
            talk = self._talk(session_id, model)
            stored = self.assistant.say(talk, Message(role=USER, content=words))
        except WriteFailed as error:
            error.kept = "your words stand at the prompt again; nothing half is in the file"
            self.words = words if self.prompt.live else ""
            self._fail(error)
            return
        except CortextError as error:
            self.words = words if self.prompt.live else ""  # they are not stored
            self._fail(error)
            return
        self._answer(talk)
        self._afterwards(session_id, stored, talk)

    def _retry(self) -> None:
        """Ask again for the answer that did not come, or for the rest of one that was cut."""
        session_id = self.assistant.sessions.active(COMMAND_LINE)
        try:
            talk = self._talk(session_id, self._model()) if session_id else None
            missing = unanswered_calls(talk.view.messages) if talk else None
            if talk and missing is not None:
                talk.store(missing)
        except CortextError as error:
            self._fail(error)
            return
        if talk is None or not (talk.view.waits or talk.view.cut):
            _note("nothing waits for an answer")
            return
        self._answer(talk)
        self._afterwards(session_id, None, talk)

    def _model(self) -> Model:
        """Who answers. Asked for first: without one no session is begun."""
        try:
            return self.assistant.models.take()
        except CortextError as error:
            error.kept = "nothing was stored, and no session was begun: ask again when a model is there"
            if self.prompt.live:
                error.kept = "your words stand at the prompt; nothing was stored"
            raise

    def _talk(self, session_id: str, model: Model) -> Talk:
        """The session as it is now: it may have gone on elsewhere. A reply that could not be stored comes first."""
        if self._unsaved is not None:
            self._unsaved.save_pending()
            self._unsaved = None
        if (missing := what_is_missing(model)) != self._told:
            self._told = missing
            _note(f"({missing})" if missing else "")
        return self.assistant.talk(session_id, model)

    def _answer(self, talk: Talk) -> None:
        try:
            show_answer(talk, on_call=_note_call)
            if talk.stopped:
                came = "what came is in the file, and out of the context" if talk.reply else "your words are stored"
                _note(f"stopped; {came}; /retry asks again")
            elif talk.cut:
                self._fail(cut_error(talk.cut, "/continue goes on where it stopped"))
        except ModelError as error:
            error.hint = f"{error.hint}; /retry asks again".removeprefix("; ")
            self._fail(error)
        except CortextError as error:
            self._unsaved = talk if talk.pending else None
            self._fail(error)
        finally:
            self.assistant.models.give_back(talk.model)
        for line in talk.view.news():
            _note(line)
        if self.prompt.live:
            print()

    def _afterwards(self, session_id: str, stored: Message | None, talk: Talk) -> None:
        self.assistant.afterwards(session_id, [message for message in (stored, talk.reply) if message is not None])

    def _fail(self, error: CortextError) -> None:
        self.code = error.exit_status
        report("alfred", error)

    def _print_json(self, session_id: str, talk: Talk) -> None:
        reply = talk.reply
        answer = {
            "session_id": session_id,
            "model": talk.model.name,
            "reply": reply.content if reply else "",
            "partial": bool(reply and reply.partial),
            "stop": "stopped" if talk.stopped else talk.cut or "end",
            "tokens": reply.tokens if reply else 0,
            "usage": (reply.usage if reply else None) or {},
        }
        print(json.dumps(answer, ensure_ascii=False, indent=2))


def _note_call(call: Call) -> None:
    _note(f"→ {call.name} {call.input.get('query') or call.input.get('text') or call.input.get('id') or ''}")


def _note(text: str) -> None:
    """A word of ours: beside the answers, so that a script can take those alone."""
    for line in text.splitlines():
        print(paint(terminal.line(line), "dim", stream=sys.stderr), file=sys.stderr)
