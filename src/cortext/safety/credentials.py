"""What only we may know: passwords in the addresses of servers, and in the environment of a program that we start.

What such a program itself may use stays, above all the API key of its model. Our server's password, our bot's token and
our settings must not reach it, nor a git hook, a pager, or whatever these start in turn.
"""

from __future__ import annotations

from collections.abc import Mapping

from cortext.extensions import STORES

PREFIX = "CORTEXT_"
# Where our own processes that such a program starts (a hook, the MCP server) find what was held back.
HELD_BACK = "CORTEXT_ENVIRONMENT"
_FOR_OUR_HOOKS = ("CORTEXT_CONFIG", "CORTEXT_WORKSPACE", "CORTEXT_HOOKS", HELD_BACK)
_OUR_SERVER = ("PGPASSWORD", "PGSSLPASSWORD")
_OUR_BOT = ("TELEGRAM_BOT_TOKEN", "TELEGRAM_API_URL", "TELEGRAM_WEBHOOK_SECRET")

SCHEMES = ("postgresql://", "postgres://")
_SECRET_OPTIONS = ("password", "sslpassword", "passfile", "sslkey")
_OURS = "postgresql"  # both schemes of ours are shown as this one


def for_child(environ: Mapping[str, str]) -> dict[str, str]:
    """Return this environment for a program that is not ours."""
    return {name: value for name, value in environ.items() if not _is_ours(name) and name not in _OUR_BOT}


def held_back(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what such a program does not get, but our own processes that it starts still need."""
    return {name: value for name, value in environ.items() if _is_ours(name)}


def _is_ours(name: str) -> bool:
    return name in _OUR_SERVER or (name.startswith(PREFIX) and name not in _FOR_OUR_HOOKS)


def is_address(text: str) -> bool:
    """Whether this is a server's address rather than a folder: its scheme is that of a kind of store."""
    scheme, separator, _ = text.partition("://")
    return bool(separator) and bool(STORES.value(scheme))


def mask_address(address: str) -> str:
    """Return the address without its secrets: safe to show, to log and to use as a name.

    A password may contain any character, escaped or not, so everything up to the last @ counts as part of it. Anything
    that is not an address is hidden completely. A secret used as a host, database or user name would be shown.
    """
    scheme = _OURS if address.startswith(SCHEMES) or not is_address(address) else address.partition("://")[0]
    unreadable = f"{scheme}://(unreadable)"
    if not is_address(address):
        return unreadable
    from urllib.parse import parse_qsl, urlencode

    known, at, rest = address.partition("://")[2].rpartition("@")
    user = known.partition(":")[0]
    server, question, query = rest.partition("?")
    if not all(letter.isalnum() or letter in "._-~%" for letter in user) or " " in server:
        return unreadable
    pairs = [(name, "***" if name.lower() in _SECRET_OPTIONS else value) for name, value in parse_qsl(query)]
    more = question + urlencode(pairs, safe="*/,") if pairs else ""
    return f"{scheme}://{user}{at if user else ''}{server}{more}"


def is_ambiguous(address: str) -> bool:
    """Whether a driver would parse the address differently than intended, for example with an @ or / in the password.

    It would take part of the password for a host or a port, and repeat it in an error message.
    """
    rest = address.partition("://")[2]
    end = next((offset for offset, letter in enumerate(rest) if letter in "@/"), len(rest))
    server = rest[end + 1 :] if rest[end : end + 1] == "@" else rest
    server, _, _ = server.partition("?")
    if "@" in server:
        return True
    hosts = server.partition("/")[0].split(",")
    ports = [host.rpartition("]")[2].partition(":")[2] for host in hosts]
    return not all(port.isascii() and (port.isdigit() or not port) for port in ports)
