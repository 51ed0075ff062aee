"""`alfred memory`: what the assistant remembers."""

from __future__ import annotations

import argparse
import json

from cortext.agents.assistant.build import build_assistant
from cortext.agents.assistant.memory import fact_json
from cortext.faces.terminal.args import Help
from cortext.faces.terminal.reading import stores_for
from cortext.faces.terminal.table import table
from cortext.safety import terminal
from cortext.store.assistant import KINDS, Fact


def run(arguments: list[str]) -> int:
    """List, add, forget or search facts; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="alfred memory",
        description="Manage what the assistant remembers in every session.",
        formatter_class=Help,
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    listing = actions.add_parser("list", help="list everything that has not expired (the default)")
    adding = actions.add_parser("add", help="remember a fact")
    adding.add_argument("text", nargs="+")
    adding.add_argument(
        "--kind", choices=KINDS, default=KINDS[0], help=f"preferences and instructions come first (default: {KINDS[0]})"
    )
    adding.add_argument("--expires", default="", metavar="DATE", help="forget it after this date: 2026-12-31")
    forgetting = actions.add_parser("forget", help="forget a fact")
    forgetting.add_argument("id", help="its id, or the beginning of it")
    searching = actions.add_parser("search", help="search the facts")
    searching.add_argument("words", nargs="+")
    for action in (listing, adding, forgetting, searching):
        action.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON")
    options = parser.parse_args(arguments)
    memory = build_assistant(stores_for(only_reads=options.action not in ("add", "forget"))).memory
    if options.action == "add":
        fact = memory.remember(" ".join(options.text), kind=options.kind, expires=options.expires)
        _show([fact], options.json, f"Remembered as {fact.id}: {fact.text}")
    elif options.action == "forget":
        fact = memory.forget(options.id)
        _show([fact], options.json, f"Forgotten: {fact.text}")
    elif options.action == "search":
        _show(memory.search(" ".join(options.words), 20), options.json, none="Nothing is remembered about that.")
    else:
        none = 'Nothing is remembered yet. Add a fact with: alfred memory add "I prefer short answers"'
        _show(memory.all(), options.json, none=none)
    return 0


def _show(facts: list[Fact], as_json: bool, text: str = "", *, none: str = "") -> None:
    if as_json:
        print(json.dumps([fact_json(fact) for fact in facts], ensure_ascii=False, indent=2))
    elif text:
        print(terminal.line(text))
    elif not facts:
        print(none)
    else:
        rows = [
            (fact.id, fact.kind, fact.created_at[:10], fact.expires_at[:10], fact.session_id or fact.by, fact.text)
            for fact in facts
        ]
        print(table(("ID", "Kind", "Created", "Expires", "Origin", "Text"), rows, styles=("cyan",)))
