"""`cortext unshare`: end a share."""

from __future__ import annotations

from argparse import ArgumentParser

from cortext.errors import NotFound
from cortext.faces.cortext.commands._which import HELP_ID, which
from cortext.faces.terminal.output import print_json
from cortext.safety import terminal
from cortext.server.share import shares_of
from cortext.wiring.stores import Stores


def parser() -> ArgumentParser:
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


def run(arguments: list[str]) -> int:
    """End the share."""
    options = parser().parse_args(arguments)
    found = which(Stores(), options.session, words=False)
    ended = shares_of(found.named_store).unshare(found.session.id, options.grantee)
    if not ended:
        who = f" with {options.grantee}" if options.grantee else ""
        raise NotFound(f"{found.session.id} is not shared{who}", kept="nothing was changed", hint="see `cortext share`")
    if options.json:
        print_json({"session": found.session.id, "ended": ended})
    else:
        print(terminal.line(f"{found.session.id} is no longer shared with {', '.join(ended)}."))
    return 0
