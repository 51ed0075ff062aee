"""The talk with the assistant in the terminal, and a single question on the command line."""

from __future__ import annotations

import time

from cortext.errors import CortextError
from cortext.faces.alfred.drawing import show
from cortext.faces.terminal.output import note, print_json
from cortext.faces.terminal.run import report
from cortext.faces.terminal.talk.answer import answer_json, show_answer, store_answer
from cortext.faces.terminal.talk.loop import TalkLoop
from cortext.model.message import USER, Message
from cortext.services.assistant.commands import NO_SESSION, Commands, created
from cortext.services.assistant.sessions import COMMAND_LINE
from cortext.services.assistant.turn import missing_setup, unanswered_calls
from cortext.services.talk.slash import Choice
from cortext.services.talk.turn import Call, Model, Talk, cut_error
from cortext.wiring.assistant import build_assistant, build_worker
from cortext.wiring.stores import Stores

AGAIN = ("/retry", "/continue")  # commands that are a turn
LINGER = 1.5  # seconds for vectors that are still being made when the user leaves; the worker makes the rest


class Loop(TalkLoop):
    """A talk with the assistant."""

    def __init__(self, stores: Stores, model: str = "") -> None:
        super().__init__("alfred")
        self.stores = stores
        self.assistant = build_assistant(stores, model)
        self.commands = Commands(self.assistant, idle_minutes=stores.settings.session.idle_minutes)
        self._unsaved: Talk | None = None  # a talk whose last reply the disk refused
        self._told = ""  # what the user was told of the model
        # The session of the turn under way, and the user's message in it.
        self._asked: tuple[str, Message | None] = ("", None)

    # ── the ways in ──────────────────────────────────────────────────────────────────────────────────

    def talk(self, *, new: bool, session: str) -> int:
        """Until the user leaves."""
        self._begin(new, session)
        self._greet()
        return self.run()

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
            note(created(session_id))
        talk = self._talk(session_id, model)
        stored = self.assistant.say(talk, Message(role=USER, content=question)) if question else None
        if not question and not talk.view.waits and not talk.view.cut:
            note("nothing waits for an answer")
            return 0
        try:
            if as_json:
                store_answer(talk)
            else:
                show_answer(talk, on_call=self.show_call)
        finally:
            self._end_turn(session_id, stored, talk)
            self.assistant.background.finish(LINGER)
        cut = cut_error(talk.cut, "go on: alfred /continue") if talk.cut else None
        if as_json:
            print_json(answer_json(talk, session_id))
        elif cut is not None:
            report("alfred", cut)
        return 130 if talk.stopped else cut.exit_status if cut else 0

    def _begin(self, new: bool, session: str) -> None:
        if session:
            answer = self.commands.run(COMMAND_LINE, f"/resume {session}")
            note(answer.text)
        elif new:
            note(self.commands.run(COMMAND_LINE, "/new").text)

    def _greet(self) -> None:
        if not self.prompt.live:
            return
        session_id = self.assistant.sessions.active(COMMAND_LINE)
        if session_id:
            note(self.commands.run(COMMAND_LINE, "/session").text)
        note("/help shows what you can do; Ctrl-C stops an answer, Ctrl-D leaves.")

    # ── the loop ─────────────────────────────────────────────────────────────────────────────────────

    def label(self) -> str:
        return "you> "

    def complete(self, text: str) -> list[Choice]:
        return self.commands.complete(text)

    def first_prompt(self) -> None:
        if self.prompt.live:
            self.assistant.background.do(self._warm)
            self.assistant.background.do(self._look_after)

    def _warm(self) -> None:
        model = self.assistant.models.take()
        model.warm()
        self.assistant.models.give_back(model)

    def _look_after(self) -> None:
        """A pass of the worker: who has neither bot nor timer gets summaries too."""
        build_worker(self.stores, self.assistant, at_once=3).run(time.time())

    def command(self, line: str) -> None:
        if line.strip() in AGAIN:
            self._retry()
        else:
            show(self.commands.run(COMMAND_LINE, line))

    def leave(self) -> bool:
        self.assistant.background.finish(LINGER)
        return True

    def show_call(self, call: Call) -> None:
        note(f"→ {call.name} {call.input.get('query') or call.input.get('text') or call.input.get('id') or ''}")

    # ── a turn ───────────────────────────────────────────────────────────────────────────────────────

    def say(self, words: str) -> Talk | None:
        if not self.assistant.auto_create and not self.assistant.sessions.active(COMMAND_LINE):
            note(NO_SESSION)
            self.unsent = words if self.prompt.live else ""
            return None
        model = self._model()
        session_id, made = self.assistant.sessions.ensure(COMMAND_LINE)
        if made:
            note(created(session_id))
        talk = self._talk(session_id, model)
        self._asked = session_id, self.assistant.say(talk, Message(role=USER, content=words))
        return talk

    def _retry(self) -> None:
        """Ask again for the answer that did not come, or for the rest of one that was cut."""
        session_id = self.assistant.sessions.active(COMMAND_LINE)
        talk = self._talk(session_id, self._model()) if session_id else None
        missing = unanswered_calls(talk.view.messages) if talk else None
        if talk and missing is not None:
            talk.store(missing)
        if talk is None or not (talk.view.waits or talk.view.cut):
            note("nothing waits for an answer")
            return
        self._asked = session_id, None
        self.answer(talk)

    def answered(self, talk: Talk) -> None:
        self._unsaved = talk if talk.pending else None
        self.assistant.models.give_back(talk.model)
        self._end_turn(*self._asked, talk)

    def _model(self) -> Model:
        """Who answers. Asked for first: without one no session is begun."""
        try:
            return self.assistant.models.take()
        except CortextError as error:
            error.kept = "nothing was stored, and no session was started: ask again when a model is available"
            raise

    def _talk(self, session_id: str, model: Model) -> Talk:
        """The session as it is now: it may have gone on elsewhere. A reply that could not be stored comes first."""
        if self._unsaved is not None:
            self._unsaved.save_pending()
            self._unsaved = None
        if (missing := missing_setup(model)) != self._told:
            self._told = missing
            note(f"({missing})" if missing else "")
        return self.assistant.talk(session_id, model)

    def _end_turn(self, session_id: str, stored: Message | None, talk: Talk) -> None:
        """The end of a turn."""
        self.assistant.afterwards(session_id, [message for message in (stored, talk.reply) if message is not None])
