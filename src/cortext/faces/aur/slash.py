"""The slash commands of the talk: what each is called, what it says about itself, and what it does."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable

from cortext.errors import UsageError
from cortext.faces.aur.agents import agent_table
from cortext.faces.aur.held import Held
from cortext.faces.terminal.style import paint
from cortext.faces.terminal.table import cut, table
from cortext.faces.terminal.talk.interrupt import answer_to
from cortext.faces.terminal.talk.pager import page
from cortext.io import files as fsio
from cortext.model import clock
from cortext.model.message import ASSISTANT, USER, Message, thread
from cortext.model.session import Change
from cortext.safety import terminal
from cortext.services.talk import sessions as spawn
from cortext.services.talk.context import CLEAR, cut_by, mark
from cortext.services.talk.slash import Choice, Command, CommandTable

_COLOURS = {USER: "green", ASSISTANT: "cyan"}


class Context:
    """What a command works on. `held` is the session that is open: /fork puts another in its place."""

    def __init__(self, held: Held, *, live: bool, answer: Callable[[], None]) -> None:
        self.held, self.live, self.answer = held, live, answer


def run(context: Context, line: str) -> None:
    """Do what a line that begins with a slash says."""
    command, argument = COMMANDS.find(line)
    command.run(context, argument.strip())


def complete(context: Context, text: str) -> list[Choice]:
    """What Tab offers: commands, agents, files."""

    def arguments(name: str, beginning: str) -> list[Choice]:
        if name == "agent":
            known = context.held.agents.known.values()
            return [Choice(a.name, len(beginning), a.description) for a in known if a.name.startswith(beginning)]
        return files(beginning) if name in ("save", "export", "import") else []

    return COMMANDS.complete(text, arguments)


def files(beginning: str) -> list[Choice]:
    """Files and folders that a path could mean."""
    folder, name = os.path.split(beginning)
    try:
        with os.scandir(os.path.expanduser(folder) or ".") as entries:
            found = [(entry.name, entry.is_dir()) for entry in entries if entry.name.startswith(name)]
    except OSError:
        return []
    hidden = name.startswith(".")
    return [
        Choice(entry + ("/" if is_folder else ""), len(name))
        for entry, is_folder in sorted(found)
        if hidden or not entry.startswith(".")
    ]


# ── the commands ─────────────────────────────────────────────────────────────────────────────────────


def _help(context: Context, argument: str) -> None:
    print(table(("COMMAND", "WHAT IT DOES"), COMMANDS.help(), styles=("cyan", "")))
    print("\nEnter sends; a \\ at the end of a line goes on in the next. Up and Down are what you said before.")


def _exit(context: Context, argument: str) -> None:
    """In the table for /help; the loop itself leaves."""


def history(context: Context, argument: str) -> None:
    """The last turns, with their numbers in the file."""
    if argument and not (argument.isdecimal() and int(argument) > 0):
        raise UsageError(f"not a number of turns: {argument!r}", hint="for example /history 20")
    found = context.held.store.tail(context.held.session.id, int(argument or 10))
    page("\n".join(_shown(message) for message in found) if found else "Nothing was said yet.")


def last_words(context: Context, lines: int = 6) -> None:
    """Where the talk stopped: the end of it, a few lines of each turn."""
    for message in context.held.store.tail(context.held.session.id, 2):
        head, *rest = _shown(message).rstrip().split("\n")
        more = [paint(f"… {len(rest) - lines} lines before this", "dim")] if len(rest) > lines else []
        print("\n".join([head, *more, *(cut(line, 400) for line in rest[-lines:]), ""]))


def _shown(message: Message) -> str:
    cut = {"length": "cut by the model's limit", "filtered": "cut by a filter"}.get(cut_by(message), "")
    marks = [word for word, there in (("cut off", message.partial), (cut, cut), ("aside", message.aside)) if there]
    who = " ".join([message.role, *(f"({word})" for word in marks)])
    head = paint(terminal.line(who), _COLOURS.get(message.role, "magenta"), "bold")
    when = paint(terminal.line(f"#{message.seq}  {clock.ago(message.timestamp)}"), "dim")
    return f"{head}  {when}\n{terminal.block(message.text)}\n"


def _stats(context: Context, argument: str) -> None:
    held = context.held
    messages = held.messages()
    roles = Counter(message.role for message in messages if not message.aside)
    halves = sum(message.partial for message in messages)
    broken = f", {halves} of them cut off" if halves else ""
    told = sum(message.tokens or 0 for message in messages if message.usage)
    guessed = sum(message.tokens or 0 for message in messages if not message.usage)
    view, left = held.view, held.view.left
    rows = [
        ("session", held.session.id),
        ("agent", f"{held.agent.name} ({held.agent.source})"),
        ("model", held.model.name),
        ("begun", f"{clock.ago(held.session.created_at)} ({held.session.created_at})"),
        ("turns", f"{roles[USER]} yours, {roles[ASSISTANT]} of the agent{broken}"),
        ("tokens", f"{told:,} counted by the provider, about {guessed:,} estimated"),
        ("context", f"{view.percent} % of {view.limit:,} tokens ({view.tokens:,}, {view.turns} turns)"),
    ]
    if left.turns:
        rows.append(("left out", f"{left.turns} older turns, about {left.tokens:,} tokens; the file keeps them"))
    rows.append(("file", held.session.path))
    for name, value in rows:
        print(f"{paint(name.ljust(8), 'dim')} {terminal.line(value)}")


def _clear(context: Context, argument: str) -> None:
    context.held.talk.store(mark(CLEAR, "the view was cleared"))
    print("The agent starts afresh; the file keeps everything.")


def _retry(context: Context, argument: str) -> None:
    context.held.talk.save_pending()  # it may be the answer, which only could not be stored
    if not context.held.view.waits:
        raise UsageError("there is nothing to answer", hint="say something first")
    context.held.talk.begin()
    context.answer()


def _continue(context: Context, argument: str) -> None:
    if not context.held.view.cut:
        raise UsageError("the last answer was not cut off", hint="just say what you want")
    context.held.talk.begin()
    context.answer()


def _agent(context: Context, argument: str) -> None:
    if not argument:
        print(agent_table(context.held.agents))
        print(f"\n{terminal.line(context.held.agent.name)} answers now; /agent NAME changes that.")
        return
    agent = context.held.agents.get(argument)
    context.held.change_agent(agent)
    print(f"{terminal.line(agent.name)} answers from here on, and knows what was said.")


def _model(context: Context, argument: str) -> None:
    if argument:
        context.held.change_model(argument)
        context.held.talk.warm()
    print(f"{terminal.line(context.held.model.name)} answers{' from here on' if argument else ''}.")


def _title(context: Context, argument: str) -> None:
    if argument:
        context.held.session = context.held.writer.update(Change(title=" ".join(argument.split())))
    print(terminal.line(context.held.session.title or "(no title yet: /title WORDS)"))


def _save(context: Context, argument: str) -> None:
    from cortext.services.library.export import as_markdown

    session, messages = context.held.session, _for_export(context)
    _write(context, argument, "/save talk.md", as_markdown(session, messages), len(messages))


def _export(context: Context, argument: str) -> None:
    from cortext.services.library.export import as_json
    from cortext.services.library.stores import Found

    held, messages = context.held, _for_export(context)
    found = Found(held.stores.spawn_store(), held.store.get(held.session.id))
    _write(context, argument, "/export talk.json", as_json(found, messages), len(messages))


def _for_export(context: Context) -> list[Message]:
    from cortext.services.library.export import masked

    messages, kinds = masked(thread(context.held.messages()))
    for kind, count in Counter(kinds).items():
        print(f"masked {count} × {kind}", file=sys.stderr)
    return messages


def _write(context: Context, argument: str, example: str, text: str, turns: int) -> None:
    """Write a file of the user's: never over another without a word."""
    if not argument:
        raise UsageError("which file?", hint=f"for example {example}")
    path = os.path.abspath(os.path.expanduser(argument))
    if os.path.isdir(path) or not os.path.isdir(os.path.dirname(path)):
        raise UsageError(f"not a file that could be written: {path}", kept="nothing was written")
    if os.path.lexists(path):
        answer = answer_to(f"{terminal.line(path)} exists. Write over it? [y/N] ") if context.live else ""
        if answer.strip().lower() not in ("y", "yes"):
            raise UsageError(f"{path} exists", kept="it is unchanged", hint="choose another name")
    fsio.replace_file(path, [text.encode("utf-8", "replace")])
    print(terminal.line(f"Wrote {turns} turns to {path}"))


def _import(context: Context, argument: str) -> None:
    if not argument:
        raise UsageError("which file?", hint="/import FILE: what /export wrote, or the file of a session")
    messages = spawn.take_in(os.path.abspath(os.path.expanduser(argument)))
    context.held.talk.store(*messages)
    print(f"Took in {len(messages)} turns; the agent knows them now.")


def _fork(context: Context, argument: str) -> None:
    held = context.held
    held.talk.save_pending()
    made = spawn.fork(held.store, held.store.get(held.session.id))
    context.held = Held(held.stores, made.id, agent=held.agent.name, model=held.chosen_model)
    held.end()
    held.__exit__()
    print(f"Went on as {made.id}; {held.session.id} stays as it was.")


def _search(context: Context, argument: str) -> None:
    if not argument:
        raise UsageError("search for what?", hint="for example /search retry budget")
    found = context.held.stores.search().search(argument, limit=8, per_session=1, leave_out={context.held.session.id})
    if not found:
        print("Nothing was found.")
    for hit in found:
        row = hit.session
        print(f"{paint(terminal.line(row.name), 'bold')}  {paint(terminal.line(row.id), 'cyan')}")
        for match in hit.matches:
            print(f"  {terminal.line(match.role)} #{match.seq}: {_lit(match.snippet, match.highlights)}")
    if found:
        print(paint("Read one: cortext show ID. Go on with one of aur's: aur spawn --resume ID", "dim"))


def _lit(text: str, places: list[tuple[int, int]]) -> str:
    """A snippet with the words that were found in bold."""
    shown, done = "", 0
    for start, end in sorted(places):
        shown += terminal.line(text[done:start]) + paint(terminal.line(text[start:end]), "bold")
        done = end
    return shown + terminal.line(text[done:])


COMMANDS = CommandTable[Callable[[Context, str], None]](
    [
        Command("help", "", "this list", _help),
        Command("history", "[N]", "the last N turns (10), with their numbers", history),
        Command("stats", "", "turns, tokens, and how full the context is", _stats),
        Command("clear", "", "start afresh: the agent forgets, the file does not", _clear),
        Command("retry", "", "ask again for an answer to your last words", _retry),
        Command("continue", "", "go on with an answer that the model's limit cut", _continue),
        Command("agent", "[NAME]", "let another agent answer", _agent),
        Command("model", "[M]", "let another model answer", _model),
        Command("title", "[WORDS]", "show the title, or give one", _title),
        Command("save", "FILE", "the talk as markdown, secrets masked", _save),
        Command("export", "FILE", "the talk as JSON, secrets masked", _export),
        Command("import", "FILE", "take in turns from an export or another session", _import),
        Command("fork", "", "go another way from here, in a new session", _fork),
        Command("search", "WORDS", "find something in past sessions", _search),
        Command("exit", "", "leave; Ctrl-D does too", _exit),
    ],
    hint="start with a space to send it to the agent",
)
