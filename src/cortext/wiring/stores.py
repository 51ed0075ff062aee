"""The stores of a command: where they are, how to open them, and the list, search and capture over them."""

from __future__ import annotations

import os
from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple

from cortext.config import folders
from cortext.config.load import server_address, settings_of
from cortext.extensions import STORES
from cortext.safety.credentials import mask_address
from cortext.services.library.stores import NamedStore, StoredConversation
from cortext.services.projects.workspaces import check_folder, find_workspace, known_workspaces, no_workspace
from cortext.services.workspace import notices
from cortext.store.base import Store
from cortext.store.files.layout_paths import CopiesView, control_folder

if TYPE_CHECKING:  # imported in the functions, so that a command that needs no store imports none
    from cortext.services.capture.capture import Capture
    from cortext.services.cost.carrying import CarryingPrices
    from cortext.services.cost.prices import Prices
    from cortext.services.library.backfill import Embedder
    from cortext.services.library.listing import Listing
    from cortext.services.library.search import Search
    from cortext.services.projects.safety_copies import CopiesFolder
    from cortext.store.files.safety_copies import SafetyCopies
    from cortext.store.server_capabilities import ServerStore

WORKSPACE = "workspace"
HOME = "home"
SPAWN = "spawn"
CHAT = "chat"
SHARED = "shared"  # what others share with this user, on a server
# The stores of a user that belong to no workspace, with their labels.
_USER_STORES = ((HOME, "home"), (SPAWN, "aur"), (CHAT, "alfred"))


class Location(NamedTuple):
    """Where a store is, and its label for the user. The store may not exist yet.

    For a store on a server, `address` is its connection string with the password, and `root` is only an identifier.
    """

    kind: str
    root: str
    label: str
    address: str = ""

    @property
    def control(self) -> str:
        """The folder of its locks and trash."""
        return control_folder(self.kind, self.root)

    @property
    def exists(self) -> bool:
        """Whether the folder exists; a store on a server always does."""
        return bool(self.address) or os.path.isdir(self.root)


def _workspace_location(root: str) -> Location:
    return Location(WORKSPACE, root, os.path.basename(root))


def server_location(address: str, kind: str, label: str) -> Location:
    """Return the location of a store on a server; its `root` does not contain the password."""
    return Location(kind, f"{mask_address(address)}#{kind}", label, address)


class Stores:
    """The stores that a command run in this folder uses, and the settings there."""

    def __init__(self, folder: str | None = None, *, only_reads: bool = False) -> None:
        """A command that `only_reads` also works in a workspace whose settings file is broken."""
        self.folder = os.path.abspath(folder or os.getcwd())
        self.workspace = check_folder(find_workspace(self.folder))
        self.settings = settings_of(self.workspace, only_reads=only_reads)
        self._servers: dict[tuple[str, float], ServerStore] = {}

    def here(self) -> str:
        """Return the workspace that contains the folder; raise NotFound if there is none."""
        if not self.workspace:
            raise no_workspace(self.folder)
        return self.workspace

    # ── locations ────────────────────────────────────────────────────────────────────────────────────

    def locations(self) -> list[Location]:
        """Return every known store: this workspace, the home store, those of aur and alfred, other workspaces."""
        this_workspace = [_workspace_location(self.workspace)] if self.workspace else []
        on_server = self.server_locations()
        if on_server:
            on_server.append(server_location(on_server[0].address, SHARED, SHARED))
        found = [*this_workspace, *(on_server or self.file_locations())]
        roots = {location.root for location in found}
        return found + [_workspace_location(root) for root in known_workspaces() if root not in roots]

    def file_locations(self) -> list[Location]:
        """Return the stores of this user in files that belong to no workspace, even if a server is used instead."""
        roots = {
            HOME: os.path.join(folders.data(), "home"),
            SPAWN: folders.spawn_sessions(self.settings),
            CHAT: folders.chat_sessions(self.settings),
        }
        return [Location(kind, roots[kind], label) for kind, label in _USER_STORES]

    def server_locations(self) -> list[Location]:
        """Return the same stores on the server in the settings; none if no server is configured."""
        address = server_address(self.settings)
        return [server_location(address, kind, label) for kind, label in _USER_STORES] if address else []

    def location(self, kind: str) -> Location:
        """Return the store of this kind that belongs to no workspace."""
        return next(location for location in self.locations() if location.kind == kind)

    # ── stores ───────────────────────────────────────────────────────────────────────────────────────

    def open(self, location: Location, timeout: float | None = None) -> Store:
        """Return the store there; `timeout` replaces the setting for how long it waits for another writer."""
        if location.address:
            return self.server(location, timeout)
        timeout = self.settings.store.lock_timeout if timeout is None else timeout
        if location.kind == SPAWN:
            from cortext.store.files.spawn import SpawnStore

            return SpawnStore(location.root, lock_timeout=timeout)
        if location.kind == CHAT:
            from cortext.store.files.chat import ChatStore

            return ChatStore(location.root, lock_timeout=timeout)
        from cortext.store.files.workspace import WorkspaceStore

        return WorkspaceStore(location.root, lock_timeout=timeout, copies=self.copies(location))

    def copies(self, location: Location) -> SafetyCopies | None:
        """Return the safety copies of a workspace in git; None for any other store."""
        found = self._copied(location)
        return self._safety_copies(found) if found is not None else None

    def _copied(self, location: Location) -> CopiesFolder | None:
        """Return where the safety copies of a workspace are, with those that only another branch had; else None."""
        found, problem = self._looked_at(location)
        if problem:
            notices.add([f"{problem}: they may be missing; `cortext doctor` gives it more time"])
        return found

    def ask_git_again(self, root: str) -> str:
        """Ask git, with much time, what it failed to say about a workspace's branches; return how it fails again."""
        return self._looked_at(_workspace_location(root), is_patient=True)[1]

    def _looked_at(self, location: Location, *, is_patient: bool = False) -> tuple[CopiesFolder | None, str]:
        if location.kind != WORKSPACE:
            return None, ""
        from cortext.services.projects.safety_copies import adopt_from_branches, copied

        conversation = copied(location.root)
        if conversation is None:
            return None, ""
        return conversation, adopt_from_branches(
            conversation, partial(self._safety_copies, conversation), is_patient=is_patient
        )

    def _safety_copies(self, found: CopiesFolder) -> SafetyCopies:
        from cortext.store.files.safety_copies import SafetyCopies

        return SafetyCopies(found.folder, found.root, found.trees, found.record, partial(_note_stashed, found.root))

    def server(self, location: Location, timeout: float | None = None) -> ServerStore:
        """Return the store on a server, whose kind its address names. Each is created once, for its connections."""
        timeout = self.settings.store.lock_timeout if timeout is None else timeout
        store = self._servers.get((location.root, timeout))
        if store is None:
            scheme = location.address.partition("://")[0]
            store = STORES.load(scheme)(location.address, location.kind, self.settings.store, timeout)
            self._servers[location.root, timeout] = store
        return store

    def named(self, location: Location, timeout: float | None = None) -> NamedStore:
        """Return the store there, with its label."""
        return NamedStore(location.label, location.kind, location.root, self.open(location, timeout))

    def all(self) -> list[NamedStore]:
        """Return every store that exists."""
        return [self.named(location) for location in self.locations() if location.exists]

    def workspace_store(self) -> NamedStore:
        """Return the store of the workspace that contains the folder; raise NotFound if there is none."""
        self.here()
        return self.named(self.locations()[0])

    def home_store(self) -> NamedStore:
        """Return the store of what was captured outside any workspace; the first write creates it."""
        return self.named(self.location(HOME))

    def spawn_store(self, timeout: float | None = None) -> NamedStore:
        """Return the store of `aur`; the first write creates it."""
        return self.named(self.location(SPAWN), timeout)

    # ── list, search and capture ─────────────────────────────────────────────────────────────────────

    def listing(self, kind: str = "") -> Listing:
        """Return the list of all sessions, or of those in stores of one kind."""
        from cortext.index.refresh import StoreSource
        from cortext.services.library.listing import Listing

        locations = [location for location in self.locations() if location.exists and kind in ("", location.kind)]
        stores = [
            StoreSource(
                location.root,
                location.kind,
                location.control,
                partial(self.open, location),
                CopiesView(found.folder, found.root, found.trees) if (found := self._copied(location)) else None,
            )
            for location in locations
            if not location.address
        ]
        on_servers = [location for location in locations if location.address]
        served = []
        if on_servers:
            from cortext.services.library.served_sessions import ServedSessions

            served = [ServedSessions(location.root, location.kind, self.server(location)) for location in on_servers]
        return Listing(folders.cache(), stores, {location.root: location.label for location in locations}, served)

    def prices(self, file: str = "") -> Prices:
        """Return the prices of models: those in a file, or in the file that the settings name, replace the table's."""
        from cortext.services.cost.prices import Prices

        return Prices(file or os.path.expanduser(self.settings.cost.prices))

    def carrying(self, listing: Listing) -> CarryingPrices:
        """Return what it costs to carry a conversation into a tool."""
        from cortext.services.cost.carrying import CarryingPrices
        from cortext.wiring import tools

        return CarryingPrices(listing, self.prices, tools.can_resume)

    def search(self) -> Search:
        """Return the search over all sessions."""
        from cortext.index.search.models import Models
        from cortext.services.library.search import Search

        models = Models(self.settings.search.model, self.settings.search.address)
        listing = self.listing()
        served = None
        if listing.served:
            from cortext.services.library.served_search import ServedSearch

            served = partial(ServedSearch, embedder=embedder)
        return Search(listing, folders.cache(), models, self._released, served)

    def _released(self, version: str) -> str:
        from cortext.services.projects.git import release_time

        return release_time(self.folder, version)

    def capture(self) -> Capture:
        """Return what captures the transcripts of AI tools."""
        from cortext.index.catalogue import Catalogue
        from cortext.services.capture.capture import Capture

        mask, keep_unmasked = self.settings.workspace.mask, self.settings.workspace.keep_unmasked
        catalogue = Catalogue(folders.cache())
        return Capture(self.home_store(), catalogue, self.all(), mask=mask, keep_unmasked=keep_unmasked)

    def caught_up(self, conversation: StoredConversation) -> StoredConversation:
        """Capture what its AI tool has written since, even if no hook reported it; return the updated session."""
        from cortext.services.capture.capture import caught_up
        from cortext.wiring import tools

        origin = conversation.session.origin
        if not origin.session_id or not tools.is_known(origin.tool):
            return conversation
        return caught_up(self.capture(), tools.tool(origin.tool), conversation)


def _note_stashed(root: str, path: str) -> None:
    """Leave a notice if a conversation that came back into the work tree of a workspace is in the stash as well."""
    from cortext.services.library.taken_by_git import stashed

    notices.add(stashed(root, path))


@cache
def embedder() -> Embedder:
    """Return the embedding model for the assistant's messages: the built-in one, so that no text leaves the machine."""
    from cortext.index.search.embed import StaticModel

    return StaticModel()
