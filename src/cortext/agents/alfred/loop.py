"""The conversation with the assistant in the terminal, and a single question on the command line."""

from __future__ import annotations

import os
import sys
import time

from cortext.agents.assistant.build import build_assistant, build_worker
from cortext.agents.assistant.commands import NO_SESSION, Commands, Outcome, SearchHit, created_notice
from cortext.agents.assistant.sessions import COMMAND_LINE
from cortext.agents.assistant.turn import missing_setup, unanswered_calls
from cortext.agents.llm.base import CallRequest, ChatModel
from cortext.agents.talk.slash import Suggestion
from cortext.agents.talk.turn import Talk, cut_error
from cortext.agents.terminal.loop import TalkLoop, answer_json, show_answer, store_answer
from cortext.errors import CortextError, UsageError
from cortext.faces.terminal.output import columns, note, paint, print_json
from cortext.faces.terminal.run import report
from cortext.faces.terminal.table import Column, fitted_table, table
from cortext.io import durable
from cortext.model.message import USER, Message
from cortext.safety import terminal
from cortext.wiring.stores import Stores

ABILITIES = "I keep every conversation, find and continue those of all your AI tools, and remember what you tell me to."
TURN_COMMANDS = ("/retry", "/continue")  # commands that ask the model
BACKGROUND_TIMEOUT = 1.5  # seconds for unfinished vectors when the user leaves; the worker computes the rest


class AlfredLoop(TalkLoop):
    """A conversation with the assistant."""

    def __init__(self, stores: Stores, model: str = "") -> None:
        super().__init__("alfred")
        self.stores = stores
        self.assistant = build_assistant(stores, model)
        self.commands = Commands(self.assistant)
        self._unsaved: Talk | None = None  # the conversation whose last reply could not be written
        self._missing_setup = ""  # the notice about the model that was shown last
        # The session of the current turn, and the user's message in it.
        self._asked: tuple[str, Message | None] = ("", None)

    # ── entry points ─────────────────────────────────────────────────────────────────────────────────

    def talk(self, *, new: bool, session: str) -> int:
        """Run the conversation until the user leaves; return the exit code."""
        self._choose_session(new, session)
        self._greet()
        return self.run()

    def once(self, question: str, *, new: bool, session: str, as_json: bool) -> int:
        """Answer one question or run one command on standard output; return the exit code."""
        is_turn_command = question.strip() in TURN_COMMANDS
        if question.startswith("/") and not is_turn_command:
            self._choose_session(new, session)
            show(self.commands.run(COMMAND_LINE, question))
            return 0
        model = self._model()
        self._choose_session(new, session)
        session_id, is_new = self.assistant.sessions.ensure(COMMAND_LINE)
        try:
            return self._ask_once(session_id, is_new and not new, "" if is_turn_command else question, model, as_json)
        except CortextError as error:
            error.session_id = session_id
            raise

    def _ask_once(self, session_id: str, announce: bool, question: str, model: ChatModel, as_json: bool) -> int:
        if announce:
            note(created_notice(session_id))
        talk = self._talk(session_id, model)
        stored = self.assistant.say(talk, Message(role=USER, content=question)) if question else None
        if not question and not talk.view.awaits_answer and not talk.view.cut_reason:
            note("there is nothing to answer")
            return 0
        try:
            if as_json:
                store_answer(talk)
            else:
                show_answer(talk, on_call=self.show_call)
        except CortextError as error:
            error.reply = talk.reply.text if talk.reply is not None else ""
            raise
        finally:
            self._end_turn(session_id, stored, talk)
            self.assistant.background.finish(BACKGROUND_TIMEOUT)
        cut = cut_error(talk.cut_reason, "continue with: alfred /continue") if talk.cut_reason else None
        if as_json:
            print_json(answer_json(talk, session_id))
        elif cut is not None:
            report("alfred", cut)
        return 130 if talk.stopped else cut.exit_status if cut else 0

    def _choose_session(self, new: bool, session: str) -> None:
        trouble = self.assistant.sessions.chats.trouble(COMMAND_LINE)
        if trouble:
            note(f"{trouble}; the sessions are unchanged: /sessions lists them, and the file is kept as *.damaged")
        if session:
            answer = self.commands.run(COMMAND_LINE, f"/resume {session}")
            note(answer.text)
        elif new:
            note(self.commands.run(COMMAND_LINE, "/new").text)

    def _greet(self) -> None:
        if not self.prompt.live:
            return
        self._name_model()
        session_id = self.assistant.sessions.active(COMMAND_LINE)
        if not session_id:
            note(ABILITIES)
        else:
            note(self.commands.run(COMMAND_LINE, "/session").text)
            if self.assistant.context(session_id).view.awaits_answer:
                note("your last message has no answer yet; /retry asks again")
        note("/help lists the commands; Ctrl-C stops an answer, Ctrl-D leaves.")

    def _name_model(self) -> None:
        """Say which model answers, and what it lacks; without one, how to set one up."""
        try:
            model = self.assistant.models.take()
        except CortextError as error:
            note("\n".join(filter(None, (error.message, error.hint))))
            return
        self.assistant.models.give_back(model)
        self._missing_setup = missing_setup(model)
        note(f"alfred · {model.name}{f' ({self._missing_setup})' if self._missing_setup else ''}")

    # ── the loop ─────────────────────────────────────────────────────────────────────────────────────

    def label(self) -> str:
        return "you> "

    def complete(self, text: str) -> list[Suggestion]:
        return self.commands.complete(text)

    def first_prompt(self) -> None:
        if self.prompt.live:
            self.assistant.background.do(self._warm)
            self.assistant.background.do(self._run_worker)

    def _warm(self) -> None:
        model = self.assistant.models.take()
        model.warm()
        self.assistant.models.give_back(model)

    def _run_worker(self) -> None:
        """Make one short pass of the worker, so that users without a bot or a timer get summaries too."""
        build_worker(self.stores, self.assistant, at_once=3).run(time.time())

    def command(self, line: str) -> None:
        if line.strip() in TURN_COMMANDS:
            self._retry()
        else:
            show(self.commands.run(COMMAND_LINE, line))

    def leave(self) -> bool:
        self.assistant.background.finish(BACKGROUND_TIMEOUT)
        return True

    def show_call(self, call: CallRequest) -> None:
        note(f"→ {call.name} {call.input.get('query') or call.input.get('text') or call.input.get('id') or ''}")

    # ── a turn ───────────────────────────────────────────────────────────────────────────────────────

    def say(self, words: str) -> Talk | None:
        if not self.assistant.auto_create and not self.assistant.sessions.active(COMMAND_LINE):
            note(NO_SESSION)
            self.unsent = words if self.prompt.live else ""
            return None
        model = self._model()
        session_id, is_new = self.assistant.sessions.ensure(COMMAND_LINE)
        if is_new:
            note(created_notice(session_id))
        talk = self._talk(session_id, model)
        self._asked = session_id, self.assistant.say(talk, Message(role=USER, content=words))
        return talk

    def _retry(self) -> None:
        """Ask for an answer to the last message, or for the rest of an answer that was cut off."""
        session_id = self.assistant.sessions.active(COMMAND_LINE)
        talk = self._talk(session_id, self._model()) if session_id else None
        missing = unanswered_calls(talk.view.messages) if talk else None
        if talk and missing is not None:
            talk.store(missing)
        if talk is None or not (talk.view.awaits_answer or talk.view.cut_reason):
            note("there is nothing to answer")
            return
        self._asked = session_id, None
        self.answer(talk)

    def answered(self, talk: Talk) -> None:
        self._unsaved = talk if talk.pending else None
        self.assistant.models.give_back(talk.model)
        self._end_turn(*self._asked, talk)

    def _model(self) -> ChatModel:
        """Return a model. Called before a session is created, so that without a model there is none."""
        try:
            return self.assistant.models.take()
        except CortextError as error:
            error.kept = "nothing was stored, and no session was started: ask again when a model is available"
            raise

    def _talk(self, session_id: str, model: ChatModel) -> Talk:
        """Return the conversation with its latest messages; first store a reply that could not be written."""
        if self._unsaved is not None:
            self._unsaved.save_pending()
            self._unsaved = None
        if (missing := missing_setup(model)) != self._missing_setup:
            self._missing_setup = missing
            note(f"({missing})" if missing else "")
        return self.assistant.talk(session_id, model)

    def _end_turn(self, session_id: str, stored: Message | None, talk: Talk) -> None:
        self.assistant.end_turn(session_id, [message for message in (stored, talk.reply) if message is not None])


def show(answer: Outcome) -> None:
    """Print an answer. A document is written to its file, which must not exist yet; `-` is standard output."""
    if answer.above:
        print(f"{terminal.line(answer.above)}\n")
    if answer.rows:
        print(_sessions(answer))
    for hit in answer.hits:
        _show_hit(hit)
    if answer.document and answer.name == "-":
        print(terminal.block(answer.document) if sys.stdout.isatty() else answer.document, end="")
        return
    if answer.document:
        path = os.path.abspath(os.path.expanduser(answer.name))
        if os.path.lexists(path):
            raise UsageError(f"{path} exists", kept="it is unchanged", hint="choose another name: /export OTHER-NAME")
        durable.replace_file(path, [answer.document.encode("utf-8", "surrogateescape")])
        print(terminal.line(f"{answer.text} Written to {path}"))
    elif answer.text:
        print(terminal.block(answer.text))


def _sessions(answer: Outcome) -> str:
    """Return the table of sessions: fitted to a terminal, with the row numbers that /resume accepts; or complete."""
    screen = columns()
    if not screen:
        return table(answer.heads, answer.rows, styles=("cyan",))
    ranks = (0, 3, 1, 2, 0)  # the summary is truncated, and the creation date is the first column to be dropped
    cells = [list(column) for column in zip(*answer.rows, strict=True)]
    shown = [Column("#", [str(index + 1) for index in range(len(answer.rows))], right=True, style="dim")]
    for index, (head, rank, column) in enumerate(zip(answer.heads, ranks, cells, strict=True)):
        shown.append(Column(head, column, rank=rank, style="" if index else "cyan"))
    return fitted_table(shown, len(shown) - 1, screen, least=16)[0]


def _show_hit(hit: SearchHit) -> None:
    head = f"{paint(terminal.line(hit.id), 'cyan')}  {terminal.line(hit.title)}  "
    print(head + paint(terminal.line(f"{hit.where} · {hit.when}"), "dim"))
    snippet, end = "", 0
    for start, stop in hit.highlights:
        snippet += terminal.line(hit.snippet[end:start]) + paint(terminal.line(hit.snippet[start:stop]), "bold")
        end = stop
    print(f"  {snippet}{terminal.line(hit.snippet[end:])}")
