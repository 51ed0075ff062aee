"""The slash commands of a conversation with an agent."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable

from cortext.agents.aur.open_session import OpenSession, agent_table
from cortext.agents.talk import sessions
from cortext.agents.talk.context import CLEAR, cut_reason_of, marker
from cortext.agents.talk.slash import CommandTable, SlashCommand, Suggestion
from cortext.agents.terminal.interrupt import answer_to
from cortext.errors import UsageError
from cortext.faces.terminal.output import paint
from cortext.faces.terminal.pager import page
from cortext.faces.terminal.table import cut, table
from cortext.io import durable
from cortext.model import clock
from cortext.model.message import ASSISTANT, USER, Message, marks_of
from cortext.model.query import Query
from cortext.model.session import Change
from cortext.model.threads import thread
from cortext.model.wording import amount
from cortext.safety import terminal
from cortext.services.library.export import as_json, as_markdown, masked
from cortext.services.library.search import heading_of
from cortext.services.library.stores import StoredConversation

_COLOURS = {USER: "green", ASSISTANT: "cyan"}


class CommandContext:
    """What a command works on. `opened` is the open session; /fork replaces it."""

    def __init__(self, opened: OpenSession, *, live: bool, answer: Callable[[], None]) -> None:
        self.opened, self.live, self.answer = opened, live, answer


def run(context: CommandContext, line: str) -> None:
    """Run a line that begins with a slash."""
    command, argument = COMMANDS.find(line)
    command.run(context, argument.strip())


def complete(context: CommandContext, text: str) -> list[Suggestion]:
    """Return the completions of a line: commands, agents, files."""

    def arguments(name: str, beginning: str) -> list[Suggestion]:
        if name == "agent":
            known = context.opened.agents.known.values()
            return [Suggestion(a.name, len(beginning), a.description) for a in known if a.name.startswith(beginning)]
        return files(beginning) if name in ("save", "export", "import") else []

    return COMMANDS.complete(text, arguments)


def files(beginning: str) -> list[Suggestion]:
    """Return the files and folders that complete a path."""
    folder, name = os.path.split(beginning)
    try:
        with os.scandir(os.path.expanduser(folder) or ".") as entries:
            found = [(entry.name, entry.is_dir()) for entry in entries if entry.name.startswith(name)]
    except OSError:
        return []
    hidden = name.startswith(".")
    return [
        Suggestion(entry + ("/" if is_folder else ""), len(name))
        for entry, is_folder in sorted(found)
        if hidden or not entry.startswith(".")
    ]


# ── the commands ─────────────────────────────────────────────────────────────────────────────────────


def _help(context: CommandContext, argument: str) -> None:
    print(table(("COMMAND", "DESCRIPTION"), COMMANDS.help(), styles=("cyan", "")))
    print("\nEnter sends; a \\ at the end of a line continues on the next. Up and Down recall earlier messages.")


def _exit(context: CommandContext, argument: str) -> None:
    """Do nothing: the command is in the table for /help, and the loop itself handles it."""


def history(context: CommandContext, argument: str) -> None:
    """Show the last turns with their numbers in the log."""
    if argument and not (argument.isdecimal() and int(argument) > 0):
        raise UsageError(f"invalid number of turns {argument!r}", hint="use a number, for example /history 20")
    found = context.opened.store.tail(context.opened.session.id, int(argument or 10))
    page("\n".join(_rendered(message) for message in found) if found else "No messages yet.")


def last_messages(context: CommandContext, lines: int = 6) -> None:
    """Print the last lines of the last two turns."""
    for message in context.opened.store.tail(context.opened.session.id, 2):
        head, *rest = _rendered(message).rstrip().split("\n")
        more = [paint(f"… {len(rest) - lines} more lines above", "dim")] if len(rest) > lines else []
        print("\n".join([head, *more, *(cut(line, 400) for line in rest[-lines:]), ""]))


def _rendered(message: Message) -> str:
    cut = {"length": "cut off by the model's limit", "filtered": "cut off by a filter"}.get(cut_reason_of(message), "")
    labels = [*marks_of(message), *([cut] if cut else [])]
    who = " ".join([message.role, *(f"({label})" for label in labels)])
    head = paint(terminal.line(who), _COLOURS.get(message.role, "magenta"), "bold")
    when = paint(terminal.line(f"#{message.seq}  {clock.ago(message.timestamp)}"), "dim")
    return f"{head}  {when}\n{terminal.block(message.text)}\n"


def _stats(context: CommandContext, argument: str) -> None:
    opened = context.opened
    messages = opened.messages()
    roles = Counter(message.role for message in messages if not message.aside)
    partial = sum(message.partial for message in messages)
    cut_off = f", {partial} of them cut off" if partial else ""
    counted = sum(message.tokens or 0 for message in messages if message.usage)
    estimated = sum(message.tokens or 0 for message in messages if not message.usage)
    view, dropped = opened.view, opened.view.dropped
    rows = [
        ("session", opened.session.id),
        ("agent", f"{opened.agent.name} ({opened.agent.source})"),
        ("model", opened.model.name),
        ("created", f"{clock.ago(opened.session.created_at)} ({clock.minute(opened.session.created_at)})"),
        ("turns", f"{roles[USER]} by you, {roles[ASSISTANT]} by the agent{cut_off}"),
        ("tokens", f"{counted:,} counted by the provider, about {estimated:,} estimated"),
        (
            "context",
            f"{view.percent} % of {view.limit:,} tokens ({view.tokens:,}, {amount(view.turns, 'turn')})",
        ),
    ]
    if dropped.turns:
        rows.append(("dropped", f"{dropped.turns} older turns, about {dropped.tokens:,} tokens; the file keeps them"))
    rows.append(("file", opened.session.path))
    for name, value in rows:
        print(f"{paint(name.ljust(8), 'dim')} {terminal.line(value)}")


def _clear(context: CommandContext, argument: str) -> None:
    context.opened.talk.store(marker(CLEAR, "the view was cleared"))
    print("Context cleared: the agent starts from scratch; the file keeps everything.")


def _retry(context: CommandContext, argument: str) -> None:
    context.opened.talk.save_pending()  # it may be the answer, which only could not be stored
    if not context.opened.view.awaits_answer:
        raise UsageError("there is nothing to answer", hint="send a message first")
    context.opened.talk.begin()
    context.answer()


def _continue(context: CommandContext, argument: str) -> None:
    if not context.opened.view.cut_reason:
        raise UsageError("the last answer was not cut off", hint="send a message instead")
    context.opened.talk.begin()
    context.answer()


def _agent(context: CommandContext, argument: str) -> None:
    if not argument:
        print(agent_table(context.opened.agents))
        print(f"\nCurrent agent: {terminal.line(context.opened.agent.name)}. /agent NAME switches to another one.")
        return
    agent = context.opened.agents.get(argument)
    context.opened.change_agent(agent)
    print(f"Switched to {terminal.line(agent.name)}, which sees the conversation so far.")


def _model(context: CommandContext, argument: str) -> None:
    if argument:
        context.opened.change_model(argument)
        context.opened.talk.warm()
    print(f"{'Switched to' if argument else 'Current model:'} {terminal.line(context.opened.model.name)}.")


def _title(context: CommandContext, argument: str) -> None:
    if argument:
        context.opened.session = context.opened.writer.update(Change(title=" ".join(argument.split())))
    print(terminal.line(context.opened.session.title or "(no title yet; set one with /title WORDS)"))


def _save(context: CommandContext, argument: str) -> None:
    session, messages = context.opened.session, _for_export(context)
    _write(context, argument, "/save talk.md", as_markdown(session, messages), len(messages))


def _export(context: CommandContext, argument: str) -> None:
    opened, messages = context.opened, _for_export(context)
    found = StoredConversation(opened.stores.spawn_store(), opened.store.get(opened.session.id))
    _write(context, argument, "/export talk.json", as_json(found, messages), len(messages))


def _for_export(context: CommandContext) -> list[Message]:
    messages, kinds = masked(thread(context.opened.messages()))
    for kind, count in Counter(kinds).items():
        print(f"masked {count} × {kind}", file=sys.stderr)
    return messages


def _write(context: CommandContext, argument: str, example: str, text: str, turns: int) -> None:
    """Write a file that the user named. An existing file is replaced only after confirmation."""
    if not argument:
        raise UsageError("no file was given", hint=f"for example {example}")
    path = os.path.abspath(os.path.expanduser(argument))
    if os.path.isdir(path) or not os.path.isdir(os.path.dirname(path)):
        raise UsageError(
            f"cannot write {path}: it is a folder, or its folder does not exist",
            kept="nothing was written",
            hint="choose another path",
        )
    if os.path.lexists(path):
        answer = answer_to(f"{terminal.line(path)} exists. Overwrite it? [y/N] ") if context.live else ""
        if answer.strip().lower() not in ("y", "yes"):
            raise UsageError(f"{path} exists", kept="it is unchanged", hint="choose another name")
    durable.replace_file(path, [text.encode("utf-8", "replace")])
    print(terminal.line(f"Wrote {amount(turns, 'turn')} to {path}"))


def _import(context: CommandContext, argument: str) -> None:
    if not argument:
        raise UsageError("no file was given", hint="pass a file that /export wrote, or the file of a session")
    messages = sessions.read_turns(os.path.abspath(os.path.expanduser(argument)))
    context.opened.talk.store(*messages)
    print(f"Imported {amount(len(messages), 'turn')} into the context.")


def _fork(context: CommandContext, argument: str) -> None:
    opened = context.opened
    opened.talk.save_pending()
    fork = sessions.fork(opened.store, opened.store.get(opened.session.id))
    context.opened = OpenSession(opened.stores, fork.id, agent=opened.agent.name, model=opened.chosen_model)
    opened.end()
    opened.__exit__()
    print(f"Forked into {fork.id}; {opened.session.id} is unchanged.")


def _search(context: CommandContext, argument: str) -> None:
    if not argument:
        raise UsageError("no search words were given", hint="for example /search retry budget")
    query = Query(argument, limit=8, per_session=1, leave_out={context.opened.session.id})
    answer = context.opened.stores.search().reachable().search(query)
    if heading := heading_of(answer, query.text):
        print(terminal.line(heading))
    for hit in answer.hits:
        row = hit.session
        print(f"{paint(terminal.line(row.name), 'bold')}  {paint(terminal.line(row.id), 'cyan')}")
        for match in hit.matches:
            print(f"  {terminal.line(match.role)} #{match.seq}: {_highlighted(match.snippet, match.highlights)}")
    if answer.hits:
        print(paint("Read one with: cortext show ID. Continue one of aur's with: aur spawn --resume ID", "dim"))


def _highlighted(text: str, ranges: list[tuple[int, int]]) -> str:
    """Return a snippet with the matched ranges in bold."""
    result, done = "", 0
    for start, end in sorted(ranges):
        result += terminal.line(text[done:start]) + paint(terminal.line(text[start:end]), "bold")
        done = end
    return result + terminal.line(text[done:])


COMMANDS = CommandTable[Callable[[CommandContext, str], None]](
    [
        SlashCommand("help", "", "list the commands", _help),
        SlashCommand("history", "[N]", "show the last N turns (default: 10) with their numbers", history),
        SlashCommand("stats", "", "show turns, tokens, and how full the context is", _stats),
        SlashCommand("clear", "", "clear the context; the file keeps everything", _clear),
        SlashCommand("retry", "", "ask again for an answer to your last message", _retry),
        SlashCommand("continue", "", "continue an answer that was cut off", _continue),
        SlashCommand("agent", "[NAME]", "list the agents, or switch to another one", _agent),
        SlashCommand("model", "[M]", "show the model, or switch to another one", _model),
        SlashCommand("title", "[WORDS]", "show or set the title", _title),
        SlashCommand("save", "FILE", "write the conversation as markdown, secrets masked", _save),
        SlashCommand("export", "FILE", "write the conversation as JSON, secrets masked", _export),
        SlashCommand("import", "FILE", "import turns from an export or another session", _import),
        SlashCommand("fork", "", "continue in a new session with the same turns", _fork),
        SlashCommand("search", "WORDS", "search past sessions", _search),
        SlashCommand("exit", "", "leave (also Ctrl-D)", _exit),
    ],
    hint="start with a space to send it to the agent",
)
