"""Addresses of servers, which hold passwords: how they are shown."""

from __future__ import annotations

from cortext.extensions import STORES

SCHEMES = ("postgresql://", "postgres://")
_SECRET = ("password", "sslpassword", "passfile", "sslkey")
_OURS = "postgresql"  # both schemes of ours are shown as this one


def is_address(text: str) -> bool:
    """Whether this is a server's address rather than a folder: its scheme is that of a kind of store."""
    scheme, separator, _ = text.partition("://")
    return bool(separator) and bool(STORES.value(scheme))


def masked(address: str) -> str:
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
    pairs = [(name, "***" if name.lower() in _SECRET else value) for name, value in parse_qsl(query)]
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
