"""The one place that builds the objects: which stores there are, and what each is made of.

Nothing heavy is imported at the top: a command that needs no store must not pay for one.
"""

from __future__ import annotations

import os

from cortext import config
from cortext.errors import NotFound, UsageError

TYPE_CHECKING = False  # as mypy knows it: importing typing would cost a quarter of our start-up
if TYPE_CHECKING:
    from cortext.services.capture import Capture
    from cortext.services.listing import Listing
    from cortext.services.stores import NamedStore
    from cortext.store.base import Store
    from cortext.tools.base import Tool

    ToolAdapter = Tool

WORKSPACE = "workspace"
HOME = "home"
SPAWN = "spawn"
CHAT = "chat"

# How the AI tools are to call us: found on PATH, so that it works on every machine that shares the repository.
PROGRAM = ("cortext",)

# The AI tools that we know: name, module and class of the adapter.
TOOLS = {
    "claude": ("claude_code", "ClaudeCode"),
    "gemini": ("gemini_cli", "GeminiCli"),
    "opencode": ("opencode", "OpenCode"),
    "codex": ("codex", "Codex"),
}


class StorePlace:
    """A store that we know of: its kind, its folder, and what to call it. It need not exist yet."""

    def __init__(self, kind: str, root: str, label: str) -> None:
        self.kind, self.root, self.label = kind, root, label

    @property
    def control(self) -> str:
        """The folder for its locks and trash."""
        return os.path.join(self.root, *((".workspace", "state") if self.kind in (WORKSPACE, HOME) else (".cortext",)))

    @property
    def exists(self) -> bool:
        """Whether anything was ever stored there."""
        return os.path.isdir(self.root)


class Wiring:
    """Settings and stores of one run of a command."""

    def __init__(self, folder: str | None = None) -> None:
        self.folder = os.path.abspath(folder or os.getcwd())
        self.workspace = find_workspace(self.folder)
        self.settings = config.load(self.workspace, trusted=bool(self.workspace) and config.is_trusted(self.workspace))

    def places(self) -> list[StorePlace]:
        """Every store that we know: this workspace, the home store, the faces' stores, other workspaces."""
        places = []
        if self.workspace:
            places.append(StorePlace(WORKSPACE, self.workspace, os.path.basename(self.workspace)))
        places.append(StorePlace(HOME, os.path.join(config.data_folder(), "home"), "home"))
        places.append(StorePlace(SPAWN, config.spawn_folder(self.settings), "aur"))
        places.append(StorePlace(CHAT, config.chat_folder(self.settings), "alfred"))
        known = {place.root for place in places}
        places += [
            StorePlace(WORKSPACE, root, os.path.basename(root)) for root in known_workspaces() if root not in known
        ]
        return places

    def open(self, place: StorePlace) -> Store:
        """The store itself."""
        timeout = self.settings["store.lock_timeout"]
        if place.kind in (WORKSPACE, HOME):
            from cortext.store.workspace import WorkspaceStore

            return WorkspaceStore(place.root, lock_timeout=timeout)
        if place.kind == SPAWN:
            from cortext.store.spawn import SpawnStore

            return SpawnStore(place.root, lock_timeout=timeout)
        from cortext.store.chat import ChatStore

        return ChatStore(place.root, lock_timeout=timeout)

    def listing(self) -> Listing:
        """The list of all sessions."""
        from functools import partial

        from cortext.index.sessions import StoreSource
        from cortext.services.listing import Listing

        places = [place for place in self.places() if place.exists]
        sources = [StoreSource(place.root, place.kind, place.control, partial(self.open, place)) for place in places]
        return Listing(config.cache_folder(), sources, {place.root: place.label for place in places})

    def stores(self) -> list[NamedStore]:
        """Every store that exists."""
        from cortext.services.stores import NamedStore

        return [
            NamedStore(place.label, place.kind, place.root, self.open(place)) for place in self.places() if place.exists
        ]

    def here(self) -> str:
        """The folder of the workspace that we stand in."""
        if not self.workspace:
            raise NotFound(
                f"no workspace here ({self.folder})",
                kept="nothing was changed",
                hint="go to one, make this folder one with `cortext init`, or see it at work with `cortext demo`",
            )
        return self.workspace

    def workspace_store(self) -> NamedStore:
        """The store of the workspace that we stand in."""
        from cortext.services.stores import NamedStore

        self.here()
        place = self.places()[0]
        return NamedStore(place.label, place.kind, place.root, self.open(place))

    def home_store(self) -> NamedStore:
        """The store of what was captured outside any workspace; it is made when it is first written to."""
        from cortext.services.stores import NamedStore

        place = next(place for place in self.places() if place.kind == HOME)
        return NamedStore(place.label, place.kind, place.root, self.open(place))

    def capture(self) -> Capture:
        """What takes in the words of AI tools."""
        from cortext.index.catalogue import Catalogue
        from cortext.services.capture import Capture

        return Capture(
            self.home_store(),
            Catalogue(config.cache_folder()),
            self.stores(),
            mask=self.settings["workspace.mask"],
            keep_unmasked=self.settings["workspace.keep_unmasked"],
        )

    def tool(self, name: str) -> Tool:
        """The adapter of one AI tool."""
        from importlib import import_module

        if name not in TOOLS:
            raise UsageError(f"unknown AI tool {name!r}", hint=f"one of {', '.join(TOOLS)}")
        module, cls = TOOLS[name]
        made: Tool = getattr(import_module(f"cortext.tools.{module}"), cls)()
        return made

    def tools(self) -> list[Tool]:
        """Every adapter."""
        return [self.tool(name) for name in TOOLS]


def find_workspace(folder: str) -> str:
    """The nearest folder upwards that is a workspace (it has `.workspace/`); empty where there is none."""
    chosen = os.environ.get("CORTEXT_WORKSPACE")
    if chosen:
        return os.path.abspath(chosen)
    while True:
        if os.path.isdir(os.path.join(folder, ".workspace")):
            return folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return ""
        folder = parent


def _list_of_workspaces() -> str:
    return os.path.join(config.data_folder(), "workspaces")


def known_workspaces() -> list[str]:
    """Workspaces that were made or used on this machine; one path a line, those that are gone left out."""
    try:
        with open(_list_of_workspaces(), encoding="utf-8", errors="surrogateescape") as file:
            paths = file.read().split("\n")
    except OSError:
        return []
    return [path for path in dict.fromkeys(paths) if path and os.path.isdir(os.path.join(path, ".workspace"))]


def remember_workspace(root: str) -> None:
    """Add a workspace to the list, so that `list`, `search` and `doctor` find it from everywhere."""
    from cortext import fsio

    if root not in known_workspaces() and "\n" not in root:
        fsio.ensure_folder(config.data_folder())
        fsio.append_once(_list_of_workspaces(), os.fsencode(root) + b"\n")
