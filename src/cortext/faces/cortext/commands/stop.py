"""`cortext stop` and `cortext complete`: save a conversation, pause or end it, and commit it."""

from __future__ import annotations

from argparse import ArgumentParser
from functools import partial

import msgspec

from cortext.config.trust import settings_of
from cortext.errors import NotFound
from cortext.faces.cortext.commands._listing import print_notices
from cortext.faces.cortext.commands._which import HELP_ID, which
from cortext.faces.terminal.progress import waiting
from cortext.faces.terminal.run import Command
from cortext.faces.terminal.style import folded
from cortext.model.session import Change
from cortext.model.status import COMPLETED, PAUSED
from cortext.safety import terminal
from cortext.services.library.stores import Found
from cortext.services.workspace.committing import finish_commits
from cortext.services.workspace.lifecycle import active, confirmation, save
from cortext.wiring.stores import Stores

_ABOUT = {
    "stop": "Save a conversation and pause it: update its title and summary, and commit it to git. `cortext resume` "
    "continues it.",
    "complete": "Save a conversation and mark it as completed. `cortext resume --force` reopens it.",
}


def parser(name: str = "stop") -> ArgumentParser:
    """Return the parser of this command."""
    made = ArgumentParser(prog=f"cortext {name}", description=_ABOUT[name], epilog=f"example:  cortext {name} 014")
    made.add_argument("session", nargs="?", help=f"{HELP_ID} (default: the active one here)")
    made.add_argument("--summary", help="the summary to store (default: made from the text)")
    made.add_argument("--no-commit", action="store_true", help="save, but do not commit")
    made.add_argument("--in-tool", action="store_true", help="for slash commands in AI tools: never fail")
    made.add_argument("--json", action="store_true", help="print the result as JSON")
    return made


def run(arguments: list[str], name: str = "stop") -> int:
    """Save it and print a confirmation."""
    options = parser(name).parse_args(arguments)
    stores = Stores()
    try:
        if options.session is not None:
            found = which(stores, options.session, words=False)
        else:
            named_store = stores.workspace_store()
            found = Found(named_store, active(named_store))
    except NotFound as error:
        if options.session is None and stores.workspace and not options.no_commit and _finish(stores, options.json):
            return 0
        if not options.in_tool:
            raise
        print(terminal.line(f"{error.message}. {error.hint}."))
        return 0
    found = stores.caught_up(found)
    if options.summary:
        written = Change(
            summary=" ".join(options.summary.split()), summary_by="agent", summary_covers=found.session.message_count
        )
        found.store.update(found.session.id, written)
    status = PAUSED if name == "stop" else COMPLETED
    named_store = found.named_store
    commit = (
        named_store.kind == "workspace" and settings_of(named_store.root).workspace.commit and not options.no_commit
    )
    with waiting():
        saved = save(named_store, found.session.id, status, commit=commit)
    if not options.in_tool:
        print_notices()
    if options.json:
        print(msgspec.json.format(msgspec.json.encode(saved), indent=2).decode())
        return 0
    print(folded(terminal.block(confirmation(saved))))
    if saved.commit.commit:
        print(f"Committed as {saved.commit.commit}.")
    return 0


def _finish(stores: Stores, as_json: bool) -> bool:
    """Make the commits that an earlier stop could not make, and report them; return whether there were any."""
    named_store = stores.workspace_store()
    if not settings_of(named_store.root).workspace.commit:
        return False
    with waiting():
        finished = finish_commits(named_store)
    if as_json and finished:
        commits = [{"session": session.id, "commit": msgspec.to_builtins(done)} for session, done in finished]
        print(msgspec.json.format(msgspec.json.encode(commits), indent=2).decode())
    for session, done in () if as_json else finished:
        name = f'"{session.title or session.id}", which was saved before, '
        said = f"is not committed to git yet: {done.problem}; {done.hint}" if done.problem else "is committed now"
        print(terminal.line(f"{name}{said}{f' as {done.commit}' if done.commit else ''}."))
    return bool(finished)


COMPLETE = Command(partial(parser, "complete"), partial(run, name="complete"))
