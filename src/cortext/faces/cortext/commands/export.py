"""`cortext export`: write a conversation as a document."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterable

from cortext.errors import UsageError
from cortext.extensions import EXPORTS
from cortext.faces.cortext.commands._which import HELP, which
from cortext.faces.terminal.args import stores_for
from cortext.faces.terminal.output import note
from cortext.model.message import Message, plain
from cortext.safety import terminal
from cortext.safety.secrets.masking import mask
from cortext.services.library.export import json_chunks, markdown_chunks, mask_lazily
from cortext.services.library.stores import damage_note
from cortext.services.resume.moved import place_of
from cortext.services.text.threads import StoredThread
from cortext.wiring import tools

FORMATS = ("markdown", "json", "native")  # the others are found by entry point

DEFAULT_TOOL = "claude"  # that a native session is written for if nothing says which


def parser() -> ArgumentParser:
    """Return the parser of this command."""
    made = ArgumentParser(
        prog="cortext export",
        description="Write a conversation as markdown, JSON or one HTML file to standard output, or as a native "
        "session of a tool. Secrets (keys, tokens, passwords) are masked; how many is reported on standard error.",
        epilog="examples:  cortext export 014 --format json  ·  cortext export 014 --format html --encrypt > talk.html",
    )
    made.add_argument("session", nargs="*", help=HELP)
    formats = ("markdown", "json", *EXPORTS.names(), "native")
    made.add_argument("--format", choices=formats, default="markdown", help="default: markdown")
    made.add_argument(
        "--ai",
        type=tools.target_name,
        choices=tools.target_names(),
        help="with --format native: the tool to write it for",
    )
    about = "with --format html: do not cut long calls, results and texts"
    made.add_argument("--full", action="store_true", help=about)
    about = "with --format html: a file that only a passphrase opens (asked for, or in CORTEXT_EXPORT_PASSPHRASE)"
    made.add_argument("--encrypt", action="store_true", help=about)
    about = "with --format html: remove `paths` (of home and project), `names` (user, machine), or any text; repeatable"
    made.add_argument("--redact", action="append", default=[], metavar="RULE", help=about)
    about = "with --format html: every conversation, as a folder of pages with a search"
    made.add_argument("--all", default="", metavar="DIR", help=about)
    made.add_argument("--unmasked", action="store_true", help="do not mask secrets")
    return made


def run(arguments: list[str]) -> int:
    """Write it."""
    options = parser().parse_args(arguments)
    stores = stores_for()
    _check(options)
    kinds: Counter[str] = Counter()
    if options.all:
        status: int = EXPORTS.load(options.format).export_all(stores, options, kinds)
        _report(kinds)
        return status
    conversation = which(stores, " ".join(options.session))
    if problem := damage_note(conversation):
        note(f"Note: {problem}.")
    if options.format not in FORMATS:
        EXPORTS.load(options.format).export_one(conversation, options, kinds)
        return _report(kinds)
    messages: Iterable[Message] = StoredThread(conversation.store, conversation.session.id, whole=True)
    if not options.unmasked:
        messages = mask_lazily(messages, kinds)
    if options.format == "native":
        setting = stores.settings.resume.tool
        tool = tools.writer_for(conversation.session, options.ai or "", setting, choose=lambda here: DEFAULT_TOOL)
        title = conversation.session.title if options.unmasked else mask(conversation.session.title).text
        place = place_of(conversation)
        mapped = [place.paths.message(plain(message)) for message in messages]
        written = tool.write(mapped, project=place.folder, title=place.paths.text(title))
        # The next import finds it in the tool's store and must recognise it as this conversation.
        stores.capture().attach(conversation.named_store, conversation.session.id, tool.name, written.key)
        print(written.path)
    elif options.format == "json":
        _write(json_chunks(conversation, messages, unmasked=options.unmasked))
    else:
        _write(markdown_chunks(conversation.session, messages, unmasked=options.unmasked))
    return _report(kinds)


def _check(options: Namespace) -> None:
    """Raise UsageError if the options do not belong together."""
    given = [name for name in ("full", "encrypt", "redact", "all") if getattr(options, name)]
    if given and options.format in FORMATS:
        raise UsageError(f"--{given[0]} needs --format html", kept="nothing was written", hint="add --format html")
    if bool(options.session) == bool(options.all):
        problem = "both a conversation and --all were given" if options.all else "no conversation was given"
        raise UsageError(problem, kept="nothing was written", hint="name one, or use --all DIR")


def _report(kinds: Counter[str]) -> int:
    for kind, count in kinds.items():
        print(f"masked {count} × {kind}", file=sys.stderr)
    return 0


def _write(parts: Iterable[str]) -> None:
    """Write to standard output; on a terminal, without control characters."""
    for part in parts:
        sys.stdout.write(terminal.block(part) if sys.stdout.isatty() else part)
