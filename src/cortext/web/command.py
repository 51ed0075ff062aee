"""`cortext web`: find, read and continue conversations on a local page."""

from __future__ import annotations

import getpass
import os
import sys
from argparse import ArgumentParser
from importlib.util import find_spec

from cortext.distribution import install_hint
from cortext.errors import ConfigError, UsageError
from cortext.faces.terminal.run import index_later

MOST_PORT = 65_535
_NEEDED = ("jinja2", "markdown_it", "nh3", "pygments")
_SERVER = ("starlette", "uvicorn")


def parser() -> ArgumentParser:
    """Return the parser of this command."""
    made = ArgumentParser(
        prog="cortext web",
        description="Find, read and continue conversations on a page in your browser, until Ctrl-C. Only this machine "
        "can reach it, and only with the address that is printed, which works once. Secrets are masked until you click "
        "them.",
        epilog="example:  cortext web --port 8137 --no-open",
    )
    made.add_argument("--port", type=int, default=0, metavar="N", help="the port (default: a free one)")
    made.add_argument("--no-open", action="store_true", help="print the address, but do not open a browser")
    about = "listen on this address, for other machines; asks for a password, or takes it from CORTEXT_WEB_PASSWORD"
    made.add_argument("--host", default="", help=about)
    about = "the name by which a proxy makes the page known, such as page.example; needs a password as --host does"
    made.add_argument("--name", default="", metavar="HOST", help=about)
    made.add_argument("--json", action="store_true", help="print the address as JSON")
    return made


def run(arguments: list[str]) -> int:
    """Serve until Ctrl-C."""
    options = parser().parse_args(arguments)
    if not 0 <= options.port <= MOST_PORT:
        raise UsageError(f"invalid --port value {options.port}", hint=f"use a number from 1 to {MOST_PORT}")
    require_libraries(server=True)
    from cortext.web.main import serve

    password = _password() if options.host or options.name else ""
    return serve(
        index_later,
        port=options.port,
        host=options.host,
        name=options.name,
        password=password,
        opening=not options.no_open,
        as_json=options.json,
    )


def _password() -> str:
    """Return the password for a page that other machines can reach. Raises UsageError if there is none."""
    password = os.environ.get("CORTEXT_WEB_PASSWORD", "")
    if not password and sys.stdin.isatty():
        password = getpass.getpass("A password for this page: ")
    if len(password) < 8:
        raise UsageError(
            "a page for other machines (--host, --name) needs a password of at least 8 characters",
            kept="nothing was started",
            hint="set CORTEXT_WEB_PASSWORD, or leave the option out",
        )
    return password


def require_libraries(*, server: bool = False) -> None:
    """Raise ConfigError if a library of the optional dependency is missing: of the HTML export, or of the page too."""
    missing = [name for name in (*_NEEDED, *(_SERVER if server else ())) if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"pages need libraries that are not installed: {', '.join(missing)}",
            kept="every other command works without them",
            hint=install_hint("web"),
        )
