"""`cortext share` and `cortext unshare`: let others on the same server read a session, or continue it."""

from __future__ import annotations

from argparse import ArgumentParser

from cortext.errors import AmbiguousId, NotFound, SessionNotFound, UsageError
from cortext.faces.cortext.commands._which import HELP_ID, which
from cortext.faces.terminal.args import Help
from cortext.faces.terminal.output import print_json
from cortext.faces.terminal.run import Command
from cortext.faces.terminal.table import table
from cortext.model import clock
from cortext.model.wording import amount
from cortext.safety import terminal
from cortext.services.library.resolve import resolve_trashed
from cortext.services.library.stores import NamedStore
from cortext.store.server_capabilities import AuditEntry, ReadsShared, Share, Shares, SharesSessions
from cortext.wiring.stores import Stores


def parser() -> ArgumentParser:
    """Return the parser of this command."""
    made = ArgumentParser(
        prog="cortext share",
        formatter_class=Help,
        description="Share a session on a server with a person or a group. They read it and continue in a copy of "
        "their own; with --write they continue the session itself. `cortext unshare` ends it. Without a session, list "
        "what you share and what is shared with you; without --with, show with whom one is shared, and what they did.",
        epilog="example:  cortext share 014 --with ines  ·  cortext share 014 --with backend-team --write",
    )
    made.add_argument("session", nargs="?", help=HELP_ID)
    made.add_argument("--with", dest="grantee", metavar="NAME", help="the role of a person or a group on the server")
    made.add_argument("--write", action="store_true", help="let them continue the session itself")
    made.add_argument("--json", action="store_true", help="print JSON")
    return made


def run(arguments: list[str]) -> int:
    """Share a session, or list shares."""
    options = parser().parse_args(arguments)
    stores = Stores()
    if not options.session:
        if options.grantee or options.write:
            raise UsageError(
                "no session was named", kept="nothing was changed", hint="use cortext share ID --with NAME"
            )
        return _list(shares_of(stores.home_store()), as_json=options.json)
    if not options.grantee:
        named_store, session_id = _meant(stores, options.session)
        return _show(shares_of(named_store), session_id, as_json=options.json)
    conversation = which(stores, options.session, words=False)
    shares = shares_of(conversation.named_store)
    made = shares.share(conversation.session.id, options.grantee, write=options.write)
    if options.json:
        print_json(made._asdict())
        return 0
    may = "read and continue" if made.can_write else "read"
    print(
        terminal.line(
            f"{made.grantee} can {may} {made.session_id} ({amount(conversation.session.message_count, 'message')})."
        )
    )
    print(terminal.line(f"Undo: cortext unshare {made.session_id} --with {made.grantee}"))
    return 0


def shares_of(named_store: NamedStore) -> Shares:
    """Return the shares of a store's sessions; UsageError if they cannot be shared."""
    store = named_store.store
    if isinstance(store, ReadsShared):
        raise UsageError("the session belongs to somebody else", kept="nothing was changed", hint="ask its owner")
    if not isinstance(store, SharesSessions):
        raise UsageError(
            "only sessions on a server can be shared",
            kept="nothing was changed",
            hint="copy it there first: cortext store copy files server (docs/scale.md)",
        )
    return store.shares()


def _list(shares: Shares, *, as_json: bool) -> int:
    given, received = shares.given(), shares.received()
    if as_json:
        print_json({"given": [each._asdict() for each in given], "received": [each._asdict() for each in received]})
        return 0
    for head, found in (("Shared by you", given), ("Shared with you", received)):
        print(f"{head}: {'none' if not found else ''}".rstrip())
        if found:
            print(_table(found))
    return 0


def _table(found: list[Share]) -> str:
    rows = [
        (each.session_id, each.owner, each.grantee, "write" if each.can_write else "read", clock.ago(each.shared_at),
         each.title)
        for each in found
    ]  # fmt: skip
    return table(("ID", "OWNER", "WITH", "MAY", "SINCE", "TITLE"), rows, styles=("cyan",))


def _meant(stores: Stores, wanted: str) -> tuple[NamedStore, str]:
    """Return the store and the id of a session, which may be in the trash: what was done with it is still known."""
    try:
        conversation = which(stores, wanted, words=False)
        return conversation.named_store, conversation.session.id
    except SessionNotFound as error:
        items = [(each, item) for each in stores.all() for item in each.store.trash()]
        try:
            named_store, item = resolve_trashed(items, wanted, here=stores.workspace, hint=error.hint)
        except AmbiguousId:
            raise
        except NotFound:
            raise error from None
        return named_store, item.session_id


def _details(entry: AuditEntry) -> str:
    trash = f"(moved to the trash {clock.ago(entry.deleted_at)})" if entry.deleted_at else ""
    return " ".join(filter(None, (entry.grantee, entry.detail, trash)))


def _show(shares: Shares, session_id: str, *, as_json: bool) -> int:
    given = [each for each in shares.given() if each.session_id == session_id]
    audit = shares.audit(session_id)
    if as_json:
        print_json({"shares": [each._asdict() for each in given], "audit": [each._asdict() for each in audit]})
        return 0
    print(_table(given) if given else terminal.line(f"{session_id} is not shared."))
    if audit:
        rows = [(each.at, each.actor, each.action, _details(each)) for each in audit]
        print(table(("AT", "WHO", "DID", ""), rows))
    return 0


def _unshare_parser() -> ArgumentParser:
    """Return the parser of this command."""
    made = ArgumentParser(
        prog="cortext unshare",
        description="End a share of a session, or all of them. Copies that others made stay theirs. `cortext share` "
        "shares it again.",
        epilog="example:  cortext unshare 014 --with ines",
    )
    made.add_argument("session", help=HELP_ID)
    made.add_argument("--with", dest="grantee", default="", metavar="NAME", help="only this share (default: all)")
    made.add_argument("--json", action="store_true", help="print with whom it was shared as JSON")
    return made


def _unshare(arguments: list[str]) -> int:
    """End the share."""
    options = _unshare_parser().parse_args(arguments)
    conversation = which(Stores(), options.session, words=False)
    ended = shares_of(conversation.named_store).unshare(conversation.session.id, options.grantee)
    if not ended:
        who = f" with {options.grantee}" if options.grantee else ""
        raise NotFound(
            f"{conversation.session.id} is not shared{who}", kept="nothing was changed", hint="see `cortext share`"
        )
    if options.json:
        print_json({"session": conversation.session.id, "ended": ended})
    else:
        print(terminal.line(f"{conversation.session.id} is no longer shared with {', '.join(ended)}."))
    return 0


UNSHARE = Command(_unshare_parser, _unshare)
