"""Stores by the names that people give them: what `cortext store` copies from where to where, and tells about."""

from __future__ import annotations

import os
from typing import Any

import msgspec

from cortext.errors import UsageError
from cortext.safety.addresses import is_address, masked
from cortext.services.library.stores import NamedStore
from cortext.wiring.stores import CHAT, HOME, SPAWN, WORKSPACE, Location, Stores, server_location

FILES, SERVER = "files", "server"


def copy_pairs(stores: Stores, source: str, target: str) -> list[tuple[NamedStore, NamedStore]]:
    """What is copied into what: one store into another, or all `files` and the `server`."""
    groups = {FILES: stores.file_locations, SERVER: stores.server_locations}
    if source in groups and target in groups and source != target:
        if not stores.server_locations():
            raise UsageError("no server is set", hint='store = "postgresql://…" in config.toml, or CORTEXT_STORE')
        pairs = [pair for pair in zip(groups[source](), groups[target](), strict=True) if pair[0].exists]
    else:
        begin = _location(stores, source, "")
        pairs = [(begin, _location(stores, target, begin.kind))]
        if not begin.exists:
            raise UsageError(f"there is no store at {begin.root}", kept="nothing was changed")
    if any(begin.root == end.root for begin, end in pairs):
        raise UsageError("the two stores are one and the same", kept="nothing was changed")
    return [(_opened(stores, begin), _opened(stores, end)) for begin, end in pairs]


def _opened(stores: Stores, location: Location) -> NamedStore:
    return NamedStore(location.label, location.kind, location.root, stores.open(location))


def _location(stores: Stores, name: str, kind: str) -> Location:
    """A store by its name here, its address, or its kind and folder; `kind` is for an address that names none."""
    if is_address(name):
        address, _, space = name.rpartition("#")
        if space not in (HOME, SPAWN, CHAT):  # a # may also be in a password
            address, space = name, ""
        space = space or (HOME if kind in ("", WORKSPACE) else kind)
        return server_location(address, space, masked(address))
    layout, colon, folder = name.partition(":")
    if colon and layout in (WORKSPACE, HOME, SPAWN, CHAT):
        return Location(layout, os.path.abspath(os.path.expanduser(folder)), folder)
    known = [location for location in stores.locations() if name in (location.label, location.root)]
    if len(known) != 1:
        names = ", ".join(location.label for location in stores.locations())
        raise UsageError(f"no store is called {name!r}", hint=f"there are {names}; or KIND:FOLDER, or an address")
    return known[0]


def status(stores: Stores) -> dict[str, Any]:
    """Every store, how the server is (where there is one), and what is worth knowing about both."""
    found: dict[str, Any] = {"stores": [], "notes": []}
    for location in stores.locations():
        if location.address:
            state = stores.server(location).server()
            count = state.sessions
            found["server"] = msgspec.to_builtins(state)
        else:
            count = _count(stores, [location])
        found["stores"].append(
            {"name": location.label, "kind": location.kind, "path": location.root, "sessions": count}
        )
    left = _count(stores, stores.file_locations()) if "server" in found else 0
    if left:
        found["notes"].append(f"{left} sessions are in files here: `cortext store copy files server` copies them")
    return found


def _count(stores: Stores, locations: list[Location]) -> int:
    return sum(1 for location in locations if location.exists for _ in stores.open(location).sessions())
