"""A session that is open in this terminal: its agent, its model, its view and its lock; and `aur agents`."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from contextlib import ExitStack
from typing import Self

import msgspec

from cortext.agents.aur.sessions import resolve
from cortext.agents.choosing import choose_model
from cortext.agents.llm.base import ChatModel
from cortext.agents.talk import sessions
from cortext.agents.talk.agents import Agent, Agents, find_agents
from cortext.agents.talk.context import View
from cortext.agents.talk.turn import Talk
from cortext.agents.terminal.interrupt import answer_to
from cortext.agents.terminal.prompt import ask_which
from cortext.errors import NoModel, NotFound, SessionBusy, UsageError
from cortext.faces.terminal.args import Help, stores_for
from cortext.faces.terminal.output import note, paint
from cortext.faces.terminal.run import Command
from cortext.faces.terminal.table import table
from cortext.model.message import Message
from cortext.model.session import COMPLETED, Session
from cortext.model.wording import amount
from cortext.safety import terminal
from cortext.safety.framing import field
from cortext.wiring.stores import Stores

LOCK_TIMEOUT = 1.0  # seconds: an open conversation keeps the lock for hours, everything else for a moment
REPLY_TOKENS = 16_000  # of the model's context, reserved for its answer; of a small one, a quarter


class Declined(Exception):
    """The user chose not to continue; there is nothing left to do."""


class OpenSession:
    """`with OpenSession(stores, session_id, agent, model) as opened:`; the lock is released at the end."""

    def __init__(self, stores: Stores, session_id: str, *, agent: str = "", model: str = "") -> None:
        self.stores = stores
        self.store = stores.spawn_store().store
        self.agents = find_agents(stores.folder)
        self.chosen_model = model
        self._stack = ExitStack()
        try:
            self.writer = self._stack.enter_context(self.store.open(session_id, LOCK_TIMEOUT))
        except SessionBusy as error:
            error.hint = "continue in that terminal, or end that process first"
            raise
        try:
            self._load(session_id, agent)
        except BaseException:
            self._stack.close()
            raise

    def _load(self, session_id: str, wanted_agent: str) -> None:
        self.session: Session = self.writer.session()
        messages = list(self.store.read(session_id))
        self.turns = sum(not message.aside for message in messages)  # when the session was opened
        current, config = sessions.agent_of(self.session, messages), self.session.agent_config
        if wanted_agent and wanted_agent != current:
            self.agent = choose_agent(self.agents, wanted_agent)
        else:
            self.agent = choose_agent(
                self.agents, current or self.stores.settings.spawner.agent, config.system_prompt_hash
            )
        self.model = usable_model(self.stores, self.chosen_model, config.model, self.agent.model)
        self.view = View(self.limit, system=self.agent.prompt)
        self.view.load(messages)
        self.session = sessions.activate(self.writer)
        self.talk = Talk(self.writer, self.view, self.model)
        if current and self.agent.name != current:
            self.change_agent(self.agent, old=current)
        elif config.system_prompt_hash not in ("", self.agent.prompt_hash):
            note(f"the prompt of {self.agent.name} has changed since this session was last used; using the new one")
        if self.chosen_model and config.model != self.model.name:
            self._store_model()

    @property
    def limit(self) -> int:
        """The limit of the view in tokens: the setting, or less if the model's context is smaller."""
        limit = self.stores.settings.spawner.interactive.context_tokens
        context = self.model.context
        return min(limit, context - min(REPLY_TOKENS, context // 4)) if context > 0 else limit

    def change_agent(self, agent: Agent, old: str = "") -> None:
        """Let another agent answer from now on. The change is recorded in the log first, then in the metadata."""
        model = usable_model(self.stores, "", agent.model, "") if agent.model and not self.chosen_model else self.model
        message, change = sessions.change_agent(old or self.agent.name, agent, model.name)
        self.talk.store(message)
        self.agent = agent
        self.model = self.talk.model = model
        self.reload_view()
        self.session = self.writer.update(change)

    def change_model(self, name: str) -> None:
        """Let another model answer from now on."""
        self.model = self.talk.model = choose_model(self.stores.settings, self.stores.folder, name)
        self.chosen_model = name
        self.reload_view()
        self._store_model()

    def _store_model(self) -> None:
        _, change = sessions.change_agent(self.agent.name, self.agent, self.model.name)
        self.session = self.writer.update(change)

    def reload_view(self) -> None:
        """Build the view from the stored messages again, with the current prompt and limit."""
        self.view.limit, self.view.system = self.limit, self.agent.prompt
        self.view.load(self.messages())

    def messages(self) -> list[Message]:
        """Return all stored messages."""
        return list(self.store.read(self.session.id))

    @property
    def is_empty(self) -> bool:
        """Whether the session has no messages except asides."""
        return not self.talk.pending and all(message.aside for message in self.messages())

    def discard(self) -> None:
        """Release the lock and move the session to the trash."""
        self._stack.close()
        self.store.delete(self.session.id)

    def end(self, status: str = COMPLETED) -> None:
        """Complete the session: store its status, title and summary."""
        self.talk.save_pending()
        self.session = sessions.complete(self.store, self.writer, status)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()


def open_session(stores: Stores, options: Namespace) -> OpenSession:
    """Open the session that the command line asks for, or a new one."""
    if options.resume is not None:
        session_id = resolve(stores, options.resume)
        _check_damage(stores, session_id)
        return OpenSession(stores, session_id, agent=options.agent or "", model=options.model)
    # The agent and the model come first: without them no session is created.
    agents = find_agents(stores.folder)
    agent = choose_agent(agents, options.agent or stores.settings.spawner.agent, is_default=not options.agent)
    model = usable_model(stores, options.model, agent.model, "")
    session = sessions.begin(stores.spawn_store().store, agent, model.name, options.session)
    return OpenSession(stores, session.id, model=options.model)


def _check_damage(stores: Stores, session_id: str) -> None:
    """Report a damaged file. On a terminal the user chooses what to do with it, otherwise DamagedData is raised."""
    store = stores.spawn_store().store
    session = store.peek(session_id)
    if session.status == COMPLETED:
        note(f"session {session_id} was completed; reopening it")
    damage = sessions.damage_to_repair(store, session)
    if not damage:
        return
    error = sessions.damage_error(session, damage)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise error
    print(f"{paint('damaged', 'red', 'bold')}: {terminal.line(error.message)}")
    print("recover keeps the intact turns and quarantines the rest; delete moves the session to the trash.")
    answer = ask_which("What do you want to do?", ("recover", "delete", "quit"))
    if answer == "recover":
        report = store.repair(session_id)
        print(f"Recovered: {amount(report.kept_messages, 'turn')} kept, {report.quarantined_bytes} bytes quarantined.")
    elif answer == "delete":
        store.delete(session_id)
        title = f' "{field(session.title)}"' if session.title else ""
        print(f"Deleted session {session_id}{title}.\nUndo: aur spawn --restore {session_id}")
        raise Declined
    else:
        raise error


def choose_agent(agents: Agents, name: str, prompt_hash: str = "", *, is_default: bool = False) -> Agent:
    """Return the agent of that name (see Agents.get). If there is none, let the user choose on a terminal."""
    try:
        return agents.get(name, prompt_hash=prompt_hash, is_default=is_default)
    except NotFound:
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise
    print(f"Unknown agent {terminal.line(name)!r}. Available agents:\n\n{agent_table(agents)}\n")
    while True:
        try:
            choice = answer_to("Agent: ").strip()
        except EOFError:
            choice = ""
        if not choice:
            raise NotFound(
                f"unknown agent {name!r}", kept="no session was started", hint="aur agents lists the agents"
            ) from None
        near = [agent for known, agent in agents.known.items() if known.startswith(choice.lower())]
        if len(near) == 1 or choice in agents.known:
            return agents.known.get(choice, near[0])


def usable_model(stores: Stores, requested: str, of_session: str, of_agent: str) -> ChatModel:
    """Return the requested model, or raise; else that of the session or of the agent if it is usable; else any."""
    preferred = requested or of_session or of_agent
    try:
        return choose_model(stores.settings, stores.folder, preferred)
    except (NoModel, UsageError):
        if requested or not preferred:
            raise
        fallback = choose_model(stores.settings, stores.folder)
        note(f"{preferred} is not usable here; using {fallback.name}")
        return fallback


def _parser() -> ArgumentParser:
    """Return the parser of the command line."""
    command_line = ArgumentParser(
        prog="aur agents",
        formatter_class=Help,
        description="List the agents: the project's (.aurora/agents, .claude/agents), your own (in the folder of your "
        "settings, ~/.aurora/agents and ~/.claude/agents), and those that come with aur. If several have one name, the "
        "first in this order is used.",
    )
    command_line.add_argument("name", nargs="?", help="show this agent's prompt")
    command_line.add_argument("--json", action="store_true", help="print JSON")
    return command_line


def _list_agents(arguments: list[str]) -> int:
    """List the agents, or show one."""
    options = _parser().parse_args(arguments)
    found = find_agents(stores_for().folder)
    chosen = [found.get(options.name)] if options.name else list(found.known.values())
    if options.json:
        print(json.dumps(msgspec.to_builtins(chosen[0] if options.name else chosen), ensure_ascii=False, indent=2))
    elif options.name:
        print(terminal.block(chosen[0].prompt))
        print(terminal.line(f"\n{chosen[0].source}: {chosen[0].path}"), file=sys.stderr)
    else:
        print(agent_table(found))
    for problem in found.problems:
        print(terminal.line(f"Note: skipped an invalid agent: {problem}"), file=sys.stderr)
    return 0


def agent_table(found: Agents) -> str:
    """Return the table of agents: name, source, model and description."""
    rows = [(agent.name, agent.source, agent.model or "-", agent.description) for agent in found.known.values()]
    return table(("AGENT", "SOURCE", "MODEL", "DESCRIPTION"), rows, styles=("cyan", "dim", "", ""))


AGENTS = Command(_parser, _list_agents)
