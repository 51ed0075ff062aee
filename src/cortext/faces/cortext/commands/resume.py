"""`cortext resume`: continue a conversation."""

from __future__ import annotations

from argparse import ArgumentParser

from cortext.errors import NotBuilt
from cortext.faces.cortext.commands.list_ import listing
from cortext.faces.terminal.style import paint
from cortext.model import clock
from cortext.model.message import thread
from cortext.safety import terminal
from cortext.services.choose import choose
from cortext.services.registry import command_text
from cortext.services.resume.packet import build
from cortext.services.stores import Found, all_sessions
from cortext.services.views import session_row
from cortext.wiring import Wiring


def parser() -> ArgumentParser:
    """The command line."""
    made = ArgumentParser(
        prog="cortext resume",
        description="Continue a conversation where it stopped. Without a name: the conversations that can be "
        "resumed, numbered, the last active first.",
    )
    made.add_argument("what", nargs="*", help="a number from the list, an id, the beginning of one, or words")
    made.add_argument("--list", action="store_true", help="a table: id, type, title, status, last active")
    made.add_argument("--type", help="only conversations of this type")
    made.add_argument("--status", help="only conversations with this status")
    made.add_argument(
        "--print", action="store_true", dest="print_packet", help="print the packet that an agent would receive"
    )
    made.add_argument("--tokens", type=int, metavar="N", help="how large the packet may be")
    made.add_argument("--json", action="store_true", help="JSON: the list, or the packet with its receipt")
    return made


def run(arguments: list[str]) -> int:
    """List, or resume the one that is meant."""
    options = parser().parse_args(arguments)
    wiring = Wiring()
    found = [
        item
        for item in all_sessions(wiring.stores())
        if (not options.type or item.session.type == options.type)
        and (not options.status or item.session.shown_status == options.status)
    ]
    if options.list or not options.what:
        return _list(found, as_json=options.json, as_table=options.list)
    chosen = choose(found, " ".join(options.what))
    if not options.print_packet:
        raise NotBuilt("handing a conversation to an AI tool is not built yet", hint="print the packet with --print")
    session, store = chosen.session, chosen.place.store
    command, _ = command_text(chosen.place.root, session.type)
    packet = build(
        session,
        thread(store.read(session.id)),
        command=command,
        budget=options.tokens or wiring.settings["resume.tokens"],
    )
    if options.json:
        import msgspec

        print(
            msgspec.json.format(
                msgspec.json.encode({"packet": packet.text(), "receipt": packet.receipt}), indent=2
            ).decode()
        )
    else:
        print(terminal.block(packet.text()), end="")
    return 0


def _list(found: list[Found], *, as_json: bool, as_table: bool) -> int:
    if as_json:
        import json

        print(json.dumps([session_row(item) for item in found], ensure_ascii=False, indent=2))
    elif not found:
        print("No conversation can be resumed yet. Start one in your AI tool, or see `cortext demo`.")
    elif as_table:
        print(listing(found))
    else:
        print("Conversations that you can resume:\n")
        for number, item in enumerate(found, 1):
            session = item.session
            title = paint(terminal.line(session.title or session.id), "bold")
            print(f"{number}. [{terminal.line(session.type or item.place.kind)}] {title}")
            print(f"   Last active: {clock.ago(session.last_active)} | Status: {terminal.line(session.shown_status)}")
            if session.summary:
                print(f"   Summary: {terminal.line(session.summary)}")
            print()
        print("Continue one with `cortext resume NUMBER`, or by its id, or by words from its title.")
    return 0
