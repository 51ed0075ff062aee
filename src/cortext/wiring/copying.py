"""Finding stores by the names that users give them, for `cortext store copy` and `cortext store status`."""

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
    """Return the stores to copy, each with its target: one store, or all stores in `files` or on the `server`."""
    groups = {FILES: stores.file_locations, SERVER: stores.server_locations}
    if source in groups and target in groups and source != target:
        if not stores.server_locations():
            raise UsageError(
                "no server is configured", hint='set store = "postgresql://…" in config.toml, or CORTEXT_STORE'
            )
        pairs = [pair for pair in zip(groups[source](), groups[target](), strict=True) if pair[0].exists]
    else:
        location = _find(stores, source, "")
        pairs = [(location, _find(stores, target, location.kind))]
        if not location.exists:
            raise UsageError(f"there is no store at {location.root}", kept="nothing was changed")
    if any(first.root == second.root for first, second in pairs):
        raise UsageError("source and target are the same store", kept="nothing was changed")
    return [(stores.named(first), stores.named(second)) for first, second in pairs]


def _find(stores: Stores, name: str, kind: str) -> Location:
    """Return a store by its label, its address, or its layout and folder.

    `kind` is the kind of store to use if the name is an address that does not say which.
    """
    if is_address(name):
        address, _, wanted = name.rpartition("#")
        if wanted not in (HOME, SPAWN, CHAT):  # the # may be part of a password
            address, wanted = name, ""
        wanted = wanted or (HOME if kind in ("", WORKSPACE) else kind)
        return server_location(address, wanted, masked(address))
    layout, colon, folder = name.partition(":")
    if colon and layout in (WORKSPACE, HOME, SPAWN, CHAT):
        return Location(layout, os.path.abspath(os.path.expanduser(folder)), folder)
    matching = [location for location in stores.locations() if name in (location.label, location.root)]
    if len(matching) != 1:
        labels = ", ".join(location.label for location in stores.locations())
        raise UsageError(f"unknown store {name!r}", hint=f"use one of {labels}, or KIND:FOLDER, or an address")
    return matching[0]


def status(stores: Stores) -> dict[str, Any]:
    """Return every store with its number of sessions, the state of the server if there is one, and notes for users."""
    found: dict[str, Any] = {"stores": [], "notes": []}
    concerns: list[tuple[str, str]] = []
    for location in stores.locations():
        if location.address:
            state = stores.server(location).server()
            count = state.sessions
            found["server"] = msgspec.to_builtins(state)
            concerns = state.concerns()
        else:
            count = _count(stores, [location])
        row = {"name": location.label, "kind": location.kind, "path": location.root, "sessions": count}
        found["stores"].append(row)
    found["notes"] += [f"{what}: {todo}" for what, todo in concerns]
    if found.get("server", {}).get("pooled"):
        found["notes"].append(
            "a pooler is in between: statements are not prepared, and lock_timeout, statement_timeout and "
            "idle_in_transaction_session_timeout must be set for the role (ALTER ROLE … SET …)"
        )
    in_files = _count(stores, stores.file_locations()) if "server" in found else 0
    if in_files:
        found["notes"].append(
            f"{in_files} sessions are in files here: copy them with `cortext store copy files server`"
        )
    return found


def _count(stores: Stores, locations: list[Location]) -> int:
    return sum(1 for location in locations if location.exists for _ in stores.open(location).sessions())
