"""`cortext watch`: capture what changes in the AI tools' stores while they run."""

from __future__ import annotations

import json
import shutil
import signal
import sys
import threading
from argparse import ArgumentParser

from cortext.faces.terminal.output import note, print_json
from cortext.model import clock
from cortext.model.amounts import amount
from cortext.safety import terminal
from cortext.services.capture import watching
from cortext.services.capture.capture import Capture
from cortext.services.capture.repositories import record_repositories
from cortext.services.capture.watching import Reports, Watching
from cortext.wiring import tools
from cortext.wiring.stores import Stores


def parser() -> ArgumentParser:
    """Return the parser of this command."""
    made = ArgumentParser(
        prog="cortext watch",
        description="Import what changes in your AI tools' own stores as soon as it changes, until Ctrl-C. Hooks and "
        "imports may run at the same time. With --install it runs in the background, now and after every login; "
        "--uninstall undoes that.",
        epilog="example:  cortext watch --install",
    )
    action = made.add_mutually_exclusive_group()
    action.add_argument("--once", action="store_true", help="import what is new now, and stop")
    action.add_argument("--install", action="store_true", help="run it as a service of this user (systemd or launchd)")
    action.add_argument("--uninstall", action="store_true", help="stop that service and remove it")
    action.add_argument("--status", action="store_true", help="say whether it is running and installed")
    made.add_argument("--json", action="store_true", help="print JSON, one object per line while it watches")
    return made


def run(arguments: list[str]) -> int:
    """Watch, or do what the options say; return 3 if something could not be captured with --once."""
    options = parser().parse_args(arguments)
    if options.install or options.uninstall or options.status:
        return _service(options.install, options.uninstall, as_json=options.json)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())

    def report(capture: Capture, reports: Reports, was_all: bool) -> None:
        _print_round(capture, reports, as_json=options.json)
        if was_all:
            _finish(capture)

    watch = Watching(tools.tools(), lambda: Stores().capture(), report, _complain, stop)
    if options.once:
        return 3 if any(item.failed for item in watch.check_all().values()) else 0
    watch.run(lambda: None if options.json else print("Watching. Ctrl-C stops.", flush=True))
    return 0


def _print_round(capture: Capture, reports: Reports, *, as_json: bool) -> None:
    """Print a line for each tool that something was captured from, or that failed."""
    for item in reports.values():
        if as_json and (item.messages or item.failed):
            fields = {"time": clock.now(), "tool": item.tool, "new": item.created, "continued": item.updated}
            print(json.dumps({**fields, "messages": item.messages, "failed": item.failed}), flush=True)
        elif item.messages:
            count = amount(item.messages, "message")
            print(terminal.line(f"{clock.now()}  {item.tool}: {count}"), flush=True)
        for line in item.failed:
            _complain(line)
    for line in (*([capture.trouble] if capture.trouble else []), *capture.alarms):
        _complain(line)


def _complain(line: str) -> None:
    print(terminal.line(f"cortext: {line}"), file=sys.stderr, flush=True)


def _finish(capture: Capture) -> None:
    """Record the repositories of new sessions, and save conversations that grew without being active: as an import."""
    from cortext.faces.cortext.commands.import_ import save_grown

    record_repositories(capture.home, Stores().listing().index)
    for line in save_grown(capture):
        _complain(line)


def _service(install: bool, uninstall: bool, *, as_json: bool) -> int:
    from cortext.services.capture import watch_service

    if install:
        watching.require()
        program = shutil.which("cortext")
        command = [program] if program else [sys.executable, "-m", "cortext.faces.cortext.main"]
        found = watch_service.install(command, tools.folder_variables())
    else:
        found = watch_service.uninstall() if uninstall else watch_service.service()
    process = watching.running()
    if as_json:
        fields = {"path": found.path, "installed": found.installed, "problem": found.problem}
        print_json({**fields, "running": bool(process), "process": process})
        return 0
    state = "Installed" if found.installed else "Removed" if uninstall else "Not installed"
    print(terminal.line(f"{state}: {found.path}"))
    if found.problem:
        note(f"the service manager could not be used: {found.problem}")
        if install:
            note("run `cortext watch` yourself, or repeat this where the service manager runs")
    if not install and not uninstall:
        print(f"Running: process {process}." if process else "Not running.")
    return 0
