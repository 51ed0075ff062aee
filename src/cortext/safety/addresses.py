"""Addresses of servers, which hold passwords: how they are shown. Pure."""

from __future__ import annotations

SCHEMES = ("postgresql://", "postgres://")
_SECRET = ("password", "sslpassword", "passfile", "sslkey")
_UNREADABLE = "postgresql://(unreadable)"


def is_address(text: str) -> bool:
    """Whether this is the address of a server, and not a folder."""
    return text.startswith(SCHEMES)


def masked(address: str) -> str:
    """The address without its secrets: what may be shown, logged and used as a name.

    A password may hold any character, escaped or not: everything up to the last @ is taken for it. What is no address
    is not shown at all. A secret that somebody calls a host, a database or a user would be shown.
    """
    if not is_address(address):
        return _UNREADABLE
    from urllib.parse import parse_qsl, urlencode

    known, at, rest = address.partition("://")[2].rpartition("@")
    user = known.partition(":")[0]
    place, question, query = rest.partition("?")
    if not all(letter.isalnum() or letter in "._-~%" for letter in user) or " " in place:
        return _UNREADABLE
    pairs = [(name, "***" if name.lower() in _SECRET else value) for name, value in parse_qsl(query)]
    more = question + urlencode(pairs, safe="*/,") if pairs else ""
    return f"postgresql://{user}{at if user else ''}{place}{more}"


def is_ambiguous(address: str) -> bool:
    """Whether a driver would read the address in another way than it was meant: an @ or a / in the password, say.

    It would take a part of the password for a host or a port, and repeat it in an error.
    """
    rest = address.partition("://")[2]
    end = next((place for place, letter in enumerate(rest) if letter in "@/"), len(rest))
    place = rest[end + 1 :] if rest[end : end + 1] == "@" else rest
    place, _, _ = place.partition("?")
    if "@" in place:
        return True
    hosts = place.partition("/")[0].split(",")
    ports = [host.rpartition("]")[2].partition(":")[2] for host in hosts]
    return not all(port.isascii() and (port.isdigit() or not port) for port in ports)
