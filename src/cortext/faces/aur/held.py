"""A session that is open in this terminal: who answers, with which model, what it sees, and its lock."""

from __future__ import annotations

import sys
from argparse import Namespace
from contextlib import ExitStack
from typing import Self

from cortext.errors import NoModel, NotFound, SessionBusy, UsageError
from cortext.faces.aur.sessions import resolve
from cortext.faces.terminal.output import note
from cortext.faces.terminal.style import paint
from cortext.faces.terminal.talk.interrupt import answer_to
from cortext.faces.terminal.talk.prompt import ask_which
from cortext.model.message import Message
from cortext.model.session import Session
from cortext.model.status import COMPLETED
from cortext.safety import terminal
from cortext.services.talk import sessions as spawn
from cortext.services.talk.agents import Agent, Agents, find_agents
from cortext.services.talk.context import View
from cortext.services.talk.turn import Model, Talk
from cortext.wiring.models import choose_model
from cortext.wiring.stores import Stores

PATIENCE = 1.0  # seconds for a lock: whoever talks holds it for hours, all others for a moment
FOR_REPLY = 16_000  # tokens of the model's own limit that are left for its answer; a quarter of a small one


class Declined(Exception):
    """The person chose to go no further; the session is as they wanted it."""


class Held:
    """`with Held(stores, session_id, agent, model) as held:`; let go at the end, whatever happens."""

    def __init__(self, stores: Stores, session_id: str, *, agent: str = "", model: str = "") -> None:
        self.stores = stores
        self.store = stores.spawn_store().store
        self.agents = find_agents(stores.folder)
        self.chosen_model = model
        self._stack = ExitStack()
        try:
            self.writer = self._stack.enter_context(self.store.open(session_id, PATIENCE))
        except SessionBusy as error:
            error.hint = "go on in that terminal, or end that process first"
            raise
        try:
            self._fill(session_id, agent)
        except BaseException:
            self._stack.close()
            raise

    def _fill(self, session_id: str, wanted_agent: str) -> None:
        self.session: Session = self.writer.session()
        messages = list(self.store.read(session_id))
        self.turns = sum(not message.aside for message in messages)  # when it was opened
        current, config = spawn.agent_of(self.session, messages), self.session.agent_config
        if wanted_agent and wanted_agent != current:
            self.agent = choose_agent(self.agents, wanted_agent)
        else:
            self.agent = choose_agent(
                self.agents, current or self.stores.settings.spawner.agent, config.system_prompt_hash
            )
        self.model = usable_model(self.stores, self.chosen_model, config.model, self.agent.model)
        self.view = View(self.limit, system=self.agent.prompt)
        self.view.load(messages)
        self.session = spawn.activate(self.writer)
        self.talk = Talk(self.writer, self.view, self.model)
        if current and self.agent.name != current:
            self.change_agent(self.agent, old=current)
        elif config.system_prompt_hash not in ("", self.agent.prompt_hash):
            note(f"the prompt of {self.agent.name} was changed since; the new one is used")
        if self.chosen_model and config.model != self.model.name:
            self._note_model()

    @property
    def limit(self) -> int:
        """How many tokens of the talk the model is sent: the setting, or what fits into the model."""
        limit = self.stores.settings.spawner.interactive.context_tokens
        whole = self.model.context
        return min(limit, whole - min(FOR_REPLY, whole // 4)) if whole > 0 else limit

    def change_agent(self, agent: Agent, old: str = "") -> None:
        """Another agent answers from here on: said in the log first, then in the metadata."""
        model = usable_model(self.stores, "", agent.model, "") if agent.model and not self.chosen_model else self.model
        line, change = spawn.change_agent(old or self.agent.name, agent, model.name)
        self.talk.store(line)
        self.agent = agent
        self.model = self.talk.model = model
        self.see_again()
        self.session = self.writer.update(change)

    def change_model(self, name: str) -> None:
        """Another model answers from here on."""
        self.model = self.talk.model = choose_model(self.stores.settings, self.stores.folder, name)
        self.chosen_model = name
        self.see_again()
        self._note_model()

    def _note_model(self) -> None:
        _, change = spawn.change_agent(self.agent.name, self.agent, self.model.name)
        self.session = self.writer.update(change)

    def see_again(self) -> None:
        """The view is always what the file gives: also after another prompt or limit."""
        self.view.limit, self.view.system = self.limit, self.agent.prompt
        self.view.load(self.messages())

    def messages(self) -> list[Message]:
        """Everything in the file."""
        return list(self.store.read(self.session.id))

    @property
    def is_empty(self) -> bool:
        """Whether nobody said anything in it."""
        return not self.talk.pending and all(message.aside for message in self.messages())

    def discard(self) -> None:
        """Let it go, and move its file to the trash: a session in which nothing was said is none."""
        self._stack.close()
        self.store.delete(self.session.id)

    def end(self, status: str = COMPLETED) -> None:
        """The session is over: its status, title and summary."""
        self.talk.save_pending()
        self.session = spawn.complete(self.store, self.writer, status)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()


def open_session(stores: Stores, options: Namespace) -> Held:
    """The session that the command line asks for: a new one, or one to go on with."""
    if options.resume is not None:
        session_id = resolve(stores, options.resume)
        _check(stores, session_id)
        return Held(stores, session_id, agent=options.agent or "", model=options.model)
    # The agent and the model first: a session that nobody can answer in is not begun.
    agents = find_agents(stores.folder)
    agent = choose_agent(agents, options.agent or stores.settings.spawner.agent, unasked=not options.agent)
    model = usable_model(stores, options.model, agent.model, "")
    session = spawn.begin(stores.spawn_store().store, agent, model.name, options.session)
    return Held(stores, session.id, model=options.model)


def _check(stores: Stores, session_id: str) -> None:
    """A damaged file is told with its lines; a person chooses what to do with it, a script gets exit code 3."""
    store = stores.spawn_store().store
    session = store.peek(session_id)
    if session.status == COMPLETED:
        note(f"session {session_id} was completed; going on with it")
    damage = spawn.harmful(store, session)
    if not damage:
        return
    error = spawn.as_error(session, damage)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise error
    print(f"{paint('damaged', 'red', 'bold')}: {terminal.line(error.message)}")
    print("recover keeps everything that is whole, and puts the rest beside the file; delete moves it to the trash.")
    answer = ask_which("What shall it be?", ("recover", "delete", "quit"))
    if answer == "recover":
        report = store.repair(session_id)
        print(f"Recovered: {report.kept_messages} turns kept, {report.quarantined_bytes} bytes put aside.")
    elif answer == "delete":
        store.delete(session_id)
        print(f"Deleted session {session_id}.\nUndo: aur spawn --restore {session_id}")
        raise Declined
    else:
        raise error


def choose_agent(agents: Agents, name: str, held_with: str = "", *, unasked: bool = False) -> Agent:
    """The agent of that name (see Agents.get). If there is none, a person chooses from the list."""
    try:
        return agents.get(name, held_with=held_with, unasked=unasked)
    except NotFound:
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise
    from cortext.faces.aur.agents import agent_table

    print(f"There is no agent {terminal.line(name)!r}. There are:\n\n{agent_table(agents)}\n")
    while True:
        try:
            given = answer_to("Who shall it be? ").strip()
        except EOFError:
            given = ""
        if not given:
            raise NotFound(f"no agent {name!r}", kept="nothing was begun", hint="aur agents lists them") from None
        near = [agent for known, agent in agents.known.items() if known.startswith(given.lower())]
        if len(near) == 1 or given in agents.known:
            return agents.known.get(given, near[0])


def usable_model(stores: Stores, asked: str, held_with: str, agents: str) -> Model:
    """What was asked for; else what the session was held with or the agent names, if it is usable; else any."""
    preferred = asked or held_with or agents
    try:
        return choose_model(stores.settings, stores.folder, preferred)
    except (NoModel, UsageError):
        if asked or not preferred:
            raise
        other = choose_model(stores.settings, stores.folder)
        note(f"{preferred} is not usable here; {other.name} answers")
        return other
