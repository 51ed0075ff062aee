"""`alfred worker` and `alfred memory`: what it does in the background, and what it remembers."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import threading

from cortext.agents.assistant.build import build_assistant, build_worker
from cortext.agents.assistant.memory import fact_json
from cortext.agents.assistant.worker import ChatWorker, Pass
from cortext.errors import StoreUnreachable
from cortext.faces.terminal.args import Help, stores_for
from cortext.faces.terminal.output import paint
from cortext.faces.terminal.progress import Progress
from cortext.faces.terminal.run import Command
from cortext.faces.terminal.table import table
from cortext.model import clock
from cortext.safety import languages, terminal
from cortext.store.assistant import KINDS, Fact
from cortext.wiring.stores import Stores

INTERVAL = 60.0  # seconds between two passes

_TIMER = """\
# ~/.config/systemd/user/alfred-worker.service
[Unit]
Description=Summaries and vectors of alfred's sessions

[Service]
Type=oneshot
ExecStart={command}
{environment}
# ~/.config/systemd/user/alfred-worker.timer
[Unit]
Description=Run alfred's worker every five minutes

[Timer]
OnBootSec=5min
OnUnitActiveSec=5min

[Install]
WantedBy=timers.target

# then: systemctl --user daemon-reload && systemctl --user enable --now alfred-worker.timer
"""


def _worker_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="alfred worker",
        description="Summarise idle sessions, make missing vectors and archive old messages of long sessions. The bot "
        "does this by itself, and `alfred` does part of it at each start.",
        formatter_class=Help,
    )
    parser.add_argument("--once", action="store_true", help="do what is due and exit")
    parser.add_argument("--print-timer", action="store_true", help="print the units of a systemd user timer")
    parser.add_argument("--print-cron", action="store_true", help="print a line for crontab")
    parser.add_argument("--model", default="", help="the model, as provider/name (default: from the settings)")
    return parser


def _work(arguments: list[str]) -> int:
    """Run the worker once, or until Ctrl-C; return the exit code."""
    options = _worker_parser().parse_args(arguments)
    program = os.path.abspath(shutil.which("alfred") or sys.argv[0])
    if options.print_timer:
        # A unit must not contain secrets: a private file of the user has them.
        environment = "EnvironmentFile=-%h/.config/cortext/environment\n"
        command = languages.systemd_command([program, "worker", "--once"])
        print(_TIMER.format(command=command, environment=environment), end="")
        return 0
    if options.print_cron:
        print(f"*/5 * * * * {languages.cron([program, 'worker', '--once'])}")
        return 0
    stores = Stores()
    worker = build_worker(stores, build_assistant(stores, options.model))
    if options.once:
        return _once(worker)
    stop = threading.Event()
    print(paint("The worker is running, one pass a minute; Ctrl-C ends it.", "dim", stream=sys.stderr), file=sys.stderr)
    while True:
        try:
            _report(worker.run())
        except StoreUnreachable as error:
            print(terminal.line(f"{error.message}; the next pass tries again"), file=sys.stderr)
        stop.wait(INTERVAL)


def _once(worker: ChatWorker) -> int:
    """Do everything that is due, in as many passes as it takes; return the exit code."""
    failed: dict[str, str] = {}
    while True:
        with Progress("Working", 0) as bar:
            done = worker.run(progress=lambda what, number, total: _show(bar, what, number, total))
        _report(done)
        failed |= done.failed
        if done.busy or not (done.embedded or done.summarised or done.compacted):
            break
        if done.failed and not (done.summarised or done.embedded):
            break
    return 1 if failed else 0


def _show(bar: Progress, what: str, number: int, total: int) -> None:
    bar.label, bar.total, bar.done = what, total, number
    bar.step(0)


def _report(done: Pass) -> None:
    if done.busy:
        print("another worker is running")
    if done.embedded:
        print(f"{done.embedded} vectors added")
    for session_id in done.summarised:
        print(f"summarised {session_id}")
    for session_id in done.compacted:
        print(f"archived older messages of {session_id}")
    for session_id, reason in done.failed.items():
        print(terminal.line(f"{session_id} failed and is tried again later: {reason}"), file=sys.stderr)


WORKER = Command(_worker_parser, _work)


def _memory_parser() -> argparse.ArgumentParser:
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
    return parser


def _change_memory(arguments: list[str]) -> int:
    """List, add, forget or search facts; return the exit code."""
    options = _memory_parser().parse_args(arguments)
    memory = build_assistant(stores_for(only_reads=options.action not in ("add", "forget"))).memory
    if options.action == "add":
        fact = memory.remember(" ".join(options.text), kind=options.kind, expires=options.expires)
        _show_facts([fact], options.json, f"Remembered as {fact.id}: {fact.text}")
    elif options.action == "forget":
        fact = memory.forget(options.id)
        _show_facts([fact], options.json, f"Forgotten: {fact.text}")
    elif options.action == "search":
        _show_facts(memory.search(" ".join(options.words), 20), options.json, none="Nothing is remembered about that.")
    else:
        none = 'Nothing is remembered yet. Add a fact with: alfred memory add "I prefer short answers"'
        _show_facts(memory.all(), options.json, none=none)
    return 0


def _show_facts(facts: list[Fact], as_json: bool, text: str = "", *, none: str = "") -> None:
    if as_json:
        print(json.dumps([fact_json(fact) for fact in facts], ensure_ascii=False, indent=2))
    elif text:
        print(terminal.line(text))
    elif not facts:
        print(none)
    else:
        rows = [
            (
                fact.id,
                fact.kind,
                clock.day(fact.created_at),
                clock.day(fact.expires_at),
                fact.session_id or fact.by,
                fact.text,
            )
            for fact in facts
        ]
        print(table(("ID", "Kind", "Created", "Expires", "Origin", "Text"), rows, styles=("cyan",)))


MEMORY = Command(_memory_parser, _change_memory)
