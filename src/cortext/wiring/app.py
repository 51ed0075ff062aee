"""The one place that builds the objects: which stores there are, and what each is made of.

Nothing heavy is imported at the top: a command that needs no store must not pay for one.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from cortext.config import folders
from cortext.config.load import load, server_address
from cortext.config.schema import Settings
from cortext.config.trust import is_trusted
from cortext.errors import ConfigError, CortextError, NotFound
from cortext.io import files as fsio
from cortext.store.files.layout_paths import control_folder

if TYPE_CHECKING:
    from cortext.llm.base import Model
    from cortext.llm.connection import Limits
    from cortext.services.assistant.backfill import Embedder
    from cortext.services.assistant.held_chats import HeldChats
    from cortext.services.assistant.turn import Assistant
    from cortext.services.assistant.worker import ChatWorker
    from cortext.services.capture.capture import Capture
    from cortext.services.library.listing import Listing
    from cortext.services.library.search import Search
    from cortext.services.library.server_rows import ServerSource
    from cortext.services.library.stores import Found, NamedStore
    from cortext.store.assistant import Chats, Facts
    from cortext.store.base import Store
    from cortext.store.files.assistant import FileUpdates
    from cortext.store.postgres.store import PostgresStore
    from cortext.store.postgres.updates import ServerUpdates

WORKSPACE = "workspace"
HOME = "home"
SPAWN = "spawn"
CHAT = "chat"

# How the AI tools are to call us: found on PATH, so that it works on every machine that shares the repository.
PROGRAM = ("cortext",)

# The providers of models, in the order in which they are tried where none is named: name, module and class.
MODELS = {
    "anthropic": ("anthropic_api", "AnthropicModel"),
    "openai": ("openai_api", "OpenAIModel"),
    "gemini": ("gemini_api", "GeminiModel"),
    "ollama": ("ollama_api", "OllamaModel"),
}


class StorePlace:
    """A store that we know of: its kind, its folder, and what to call it. It need not exist yet.

    On a server `address` says how to get there, with the password; `root` is then only a name for it.
    """

    def __init__(self, kind: str, root: str, label: str, address: str = "") -> None:
        self.kind, self.root, self.label, self.address = kind, root, label, address

    @property
    def control(self) -> str:
        """The folder for its locks and trash."""
        return control_folder(self.kind, self.root)

    @property
    def exists(self) -> bool:
        """Whether anything was ever stored there."""
        return bool(self.address) or os.path.isdir(self.root)


class Wiring:
    """Settings and stores of one run of a command."""

    def __init__(self, folder: str | None = None) -> None:
        self.folder = os.path.abspath(folder or os.getcwd())
        self.workspace = check_folder(find_workspace(self.folder))
        self.settings = load(self.workspace, trusted=bool(self.workspace) and is_trusted(self.workspace))
        self._servers: dict[tuple[str, float], PostgresStore] = {}
        self._embedder: Embedder | None = None

    def settings_of(self, workspace: str) -> Settings:
        """The settings of any workspace: what is done to its conversations follows them."""
        if workspace == self.workspace:
            return self.settings
        return load(workspace, trusted=is_trusted(workspace))

    def places(self) -> list[StorePlace]:
        """Every store that we know: this workspace, the home store, the faces' stores, other workspaces."""
        places = []
        if self.workspace:
            places.append(StorePlace(WORKSPACE, self.workspace, os.path.basename(self.workspace)))
        places += self.server_places() or self.file_places()
        known = {place.root for place in places}
        places += [
            StorePlace(WORKSPACE, root, os.path.basename(root)) for root in known_workspaces() if root not in known
        ]
        return places

    def file_places(self) -> list[StorePlace]:
        """The stores of this user that are no workspace, as files; also where a server is used instead of them."""
        return [
            StorePlace(HOME, os.path.join(folders.data(), "home"), "home"),
            StorePlace(SPAWN, folders.spawn_sessions(self.settings), "aur"),
            StorePlace(CHAT, folders.chat_sessions(self.settings), "alfred"),
        ]

    def server_places(self) -> list[StorePlace]:
        """The same stores on the server of the settings; none where there is no such setting."""
        address = server_address(self.settings)
        if not address:
            return []
        kinds = ((HOME, "home"), (SPAWN, "aur"), (CHAT, "alfred"))
        return [server_place(address, kind, label) for kind, label in kinds]

    def open(self, place: StorePlace, timeout: float | None = None) -> Store:
        """The store itself; `timeout` is how long it waits for another writer, if not as the settings say."""
        timeout = self.settings.store.lock_timeout if timeout is None else timeout
        if place.address:
            return self.server(place, timeout)
        if place.kind in (WORKSPACE, HOME):
            from cortext.store.files.workspace import WorkspaceStore

            return WorkspaceStore(place.root, lock_timeout=timeout)
        if place.kind == SPAWN:
            from cortext.store.files.spawn import SpawnStore

            return SpawnStore(place.root, lock_timeout=timeout)
        from cortext.store.files.chat import ChatStore

        return ChatStore(place.root, lock_timeout=timeout)

    def server(self, place: StorePlace, timeout: float | None = None) -> PostgresStore:
        """One store object for each place on a server: it keeps its connections."""
        timeout = self.settings.store.lock_timeout if timeout is None else timeout
        store = self._servers.get((place.root, timeout))
        if store is None:
            from cortext.store.postgres.store import PostgresStore

            store = PostgresStore(
                place.address, place.kind, lock_timeout=timeout, lease=self.settings.store.lease_seconds
            )
            self._servers[place.root, timeout] = store
        return store

    def listing(self, kind: str = "") -> Listing:
        """The list of all sessions, or of those in stores of one kind."""
        from cortext.index.sessions import StoreSource
        from cortext.services.library.listing import Listing

        places = [place for place in self.places() if place.exists and kind in ("", place.kind)]
        files = [place for place in places if not place.address]
        sources = [StoreSource(place.root, place.kind, place.control, partial(self.open, place)) for place in files]
        labels = {place.root: place.label for place in places}
        return Listing(folders.cache(), sources, labels, self._server_sources(places))

    def search(self) -> Search:
        """Search over all sessions."""
        from cortext.index.search.models import Models
        from cortext.services.library.search import Search

        models = Models(self.settings.search.model, self.settings.search.address)
        listing = self.listing()
        if listing.servers:
            from cortext.services.library.served_search import ServedSearch

            return ServedSearch(listing, folders.cache(), models, self.embedder)
        return Search(listing, folders.cache(), models)

    def _server_sources(self, places: Sequence[StorePlace]) -> Sequence[ServerSource]:
        served = [place for place in places if place.address]
        if not served:
            return ()
        from cortext.services.library.server_rows import ServerSource

        return [ServerSource(place.root, place.kind, self.server(place)) for place in served]

    def stores(self) -> list[NamedStore]:
        """Every store that exists."""
        from cortext.services.library.stores import NamedStore

        return [
            NamedStore(place.label, place.kind, place.root, self.open(place)) for place in self.places() if place.exists
        ]

    def here(self) -> str:
        """The folder of the workspace that we stand in."""
        if not self.workspace:
            refused = strangers_workspace(_nearest_workspace(self.folder))
            raise NotFound(
                f"no workspace here ({self.folder})" + (f": {refused}" if refused else ""),
                kept="nothing was changed",
                hint="go to one, make this folder one with `cortext init`, or see it at work with `cortext demo`",
            )
        return self.workspace

    def workspace_store(self) -> NamedStore:
        """The store of the workspace that we stand in."""
        from cortext.services.library.stores import NamedStore

        self.here()
        place = self.places()[0]
        return NamedStore(place.label, place.kind, place.root, self.open(place))

    def home_store(self) -> NamedStore:
        """The store of what was captured outside any workspace; it is made when it is first written to."""
        from cortext.services.library.stores import NamedStore

        place = next(place for place in self.places() if place.kind == HOME)
        return NamedStore(place.label, place.kind, place.root, self.open(place))

    def spawn_store(self, timeout: float | None = None) -> NamedStore:
        """The store of `aur`; it is made when it is first written to."""
        from cortext.services.library.stores import NamedStore

        place = next(place for place in self.places() if place.kind == SPAWN)
        return NamedStore(place.label, place.kind, place.root, self.open(place, timeout))

    def capture(self) -> Capture:
        """What takes in the words of AI tools."""
        from cortext.index.catalogue import Catalogue
        from cortext.services.capture.capture import Capture

        return Capture(
            self.home_store(),
            Catalogue(folders.cache()),
            self.stores(),
            mask=self.settings.workspace.mask,
            keep_unmasked=self.settings.workspace.keep_unmasked,
        )

    def caught_up(self, found: Found) -> Found:
        """The session with everything that its AI tool has written, also where no hook told us."""
        origin = found.session.origin
        if not origin.session_id:
            return found
        from cortext.services.capture.capture import caught_up
        from cortext.wiring import tools

        if not tools.is_known(origin.tool):
            return found
        return caught_up(self.capture(), tools.tool(origin.tool), found)

    def model(self, name: str = "") -> Model:
        """The model of that name; else the one of the settings; else the first that is usable here."""
        from cortext.llm.connection import Limits
        from cortext.services.talk import models
        from cortext.wiring.tools import ProgramSource

        limits = Limits(
            connect=self.settings.model.connect_seconds,
            silence=self.settings.model.silence_seconds,
            retries=self.settings.model.retries,
            streaming=self.settings.model.stream,
        )
        sources: dict[str, models.Source] = {kind: ModelSource(kind, limits) for kind in MODELS}
        sources["cli"] = ProgramSource(limits, self.folder, os.path.join(folders.cache(), "headless"))
        chosen = models.choose(name or self.settings.model.name, sources)
        return models.Masked(chosen) if self.settings.model.mask else chosen

    # ── the assistant ────────────────────────────────────────────────────────────────────────────────

    def chat_place(self) -> StorePlace:
        """Where the assistant keeps its sessions."""
        return next(place for place in self.places() if place.kind == CHAT)

    def assistant(self, model: str = "") -> Assistant:
        """The assistant: its sessions, its memory, and the model that answers."""
        from cortext.services.assistant.context import ContextBuilder
        from cortext.services.assistant.memory import Memory
        from cortext.services.assistant.sessions import COMMAND_LINE, ChatSessions
        from cortext.services.assistant.turn import Assistant, Models
        from cortext.store.files.assistant import FileChats, FileFacts

        place, folder = self.chat_place(), folders.assistant(self.settings)
        current = os.path.join(folders.chat_sessions(self.settings), "current.json")
        chats: Chats = FileChats(os.path.join(folder, "chats"), COMMAND_LINE, current)
        facts: Facts = FileFacts(os.path.join(folder, "memory", "memories.jsonl"))
        if place.address:
            chats, facts = self.server(place).chats(), self.server(place).facts()
        memory = Memory(facts, self.alike)
        contexts = ContextBuilder(
            memory,
            limit=self.settings.chat.context_tokens,
            facts=self.settings.chat.facts_tokens,
            own_prompt=_own_prompt(self.settings.chat.prompt_file),
        )
        return Assistant(
            ChatSessions(self.open(place), place.root, chats, self.listing),
            memory,
            contexts,
            Models(lambda: self.model(model or self.settings.chat.model)),
            search=self.search,
            embedder=self.embedder,
            auto_create=self.settings.chat.auto_create,
            keep_messages=self.settings.chat.keep_messages,
        )

    def embedder(self) -> Embedder:
        """What makes vectors of the assistant's messages: our own table, so that nothing leaves the machine."""
        if self._embedder is None:
            from cortext.index.search.embed import StaticModel

            self._embedder = StaticModel()
        return self._embedder

    def alike(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """How alike a query is to each of these texts, by meaning."""
        vectors = self.embedder().embed([query, *texts])
        alike: list[float] = (vectors[1:] @ vectors[0]).tolist()
        return alike

    def chat_worker(self, assistant: Assistant, *, at_once: int = 20) -> ChatWorker:
        """What looks after the assistant's sessions while nobody waits."""
        from cortext.index.background_jobs import BackgroundJobs
        from cortext.io import locks
        from cortext.services.assistant.worker import ChatWorker, ServerJobs

        place = self.chat_place()
        server = self.server(place) if place.address else None
        served = ServerJobs(server.chores()) if server else None
        lock = os.path.join(folders.chat_sessions(self.settings), ".cortext", "worker.lock")
        return ChatWorker(
            assistant.store,
            served or self.listing(),
            served or BackgroundJobs(folders.cache(), place.root),
            embedder=self.embedder,
            models=assistant.models,
            lock=None if server else locks.Lock(lock),
            idle_minutes=self.settings.session.idle_minutes,
            compact_tokens=self.settings.chat.compact_tokens,
            keep_messages=self.settings.chat.keep_messages,
            at_once=at_once,
            claims=server.claims() if server else None,
        )

    def bot_updates(self, bot: int) -> FileUpdates | ServerUpdates:
        """The journal of one bot."""
        from cortext.store.files.assistant import FileUpdates

        place = self.chat_place()
        if place.address:
            return self.server(place).updates(bot)
        return FileUpdates(os.path.join(folders.assistant(self.settings), "telegram", f"{bot}.jsonl"))

    def bot_chats(self, updates: FileUpdates | ServerUpdates) -> HeldChats | None:
        """The chats of a bot that this process works on; None where one process has them all."""
        from cortext.services.assistant.held_chats import HeldChats
        from cortext.store.files.assistant import FileUpdates

        return None if isinstance(updates, FileUpdates) else HeldChats(updates)


class ModelSource:
    """The models of one provider; its module is imported when it is asked for something."""

    def __init__(self, provider: str, limits: Limits) -> None:
        self._provider, self._limits = provider, limits

    @property
    def needs(self) -> str:
        """What is missing where none is usable here."""
        needs: str = self._module().NEEDS
        return needs

    @property
    def library(self) -> str:
        """The library that it needs and that is not installed."""
        name: str = self._module().LIBRARY
        try:
            return "" if not name or importlib.util.find_spec(name) else name
        except ImportError:  # not even the package that it is part of
            return name

    def here(self) -> str:
        """The model to use where none is named."""
        found: str = self._module().here()
        return found

    def make(self, name: str) -> Model:
        """The model of that name."""
        made: Model = getattr(self._module(), MODELS[self._provider][1])(name, self._limits)
        return made

    def _module(self) -> Any:
        module, cls = MODELS[self._provider]
        return __import__(f"cortext.llm.{module}", fromlist=[cls])


def server_place(address: str, kind: str, label: str) -> StorePlace:
    """A store on a server, named without its password."""
    from cortext.safety.addresses import masked

    return StorePlace(kind, f"{masked(address)}#{kind}", label, address)


def find_workspace(folder: str) -> str:
    """The nearest folder upwards that is a workspace; empty where there is none, or it belongs to another user.

    Who can put `.workspace/` into a folder above ours could otherwise choose our settings, and have our words kept
    where he reads them: in /tmp, say. A workspace that is named (`CORTEXT_WORKSPACE`) was chosen by the user.
    """
    chosen = os.environ.get("CORTEXT_WORKSPACE")
    if chosen:
        return os.path.abspath(chosen)
    found = _nearest_workspace(folder)
    return "" if strangers_workspace(found) else found


def strangers_workspace(root: str) -> str:
    """Why a workspace is not used, and how to allow it; empty where it is the user's own, or allowed."""
    if not root:
        return ""
    owner = next((owner for owner in _owners(root) if owner not in _own_ids()), None)
    if owner is None:
        return ""
    allowed = load().workspace.safe_folders.split(",")
    real = os.path.realpath(root)
    if any(
        name.strip() == "*" or os.path.realpath(os.path.expanduser(name.strip())) == real
        for name in allowed
        if name.strip()
    ):
        return ""
    return (
        f"the workspace {root} belongs to another user (uid {owner}) and is not used; if you trust it, add it to "
        f"workspace.safe_folders in {folders.user_file()}"
    )


def strangers_workspace_here() -> str:
    """The same for the workspace that we stand in."""
    try:
        return "" if os.environ.get("CORTEXT_WORKSPACE") else strangers_workspace(_nearest_workspace(os.getcwd()))
    except (OSError, CortextError):  # no such folder any more, or settings that cannot be used: the command says so
        return ""


def _own_ids() -> set[int]:
    """The users whose folders are our own: ourselves, and with sudo the one who called it."""
    called = os.environ.get("SUDO_UID", "")
    return {os.geteuid()} | ({int(called)} if os.geteuid() == 0 and called.isdigit() else set())


def _owners(root: str) -> list[int]:
    """Whom a workspace belongs to: its folder, and the one that makes it a workspace. Tests replace it."""
    return [os.stat(root).st_uid, os.lstat(os.path.join(root, ".workspace")).st_uid]


def _nearest_workspace(folder: str) -> str:
    """The nearest folder upwards that has `.workspace/`, whoever made it; empty where there is none."""
    while True:
        if os.path.isdir(os.path.join(folder, ".workspace")):
            return folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return ""
        folder = parent


def check_folder(path: str) -> str:
    """The path itself; UnsafePath where it is not UTF-8, for no index, JSON or settings file could name it."""
    if not _is_text(path):
        from cortext.errors import UnsafePath

        raise UnsafePath(
            f"a folder's name is not UTF-8: {path!a}", kept="nothing was changed", hint="rename the folder"
        )
    return path


def _is_text(path: str) -> bool:
    return path.isascii() or path.encode("utf-8", "replace").decode("utf-8") == path


def _list_of_workspaces() -> str:
    return os.path.join(folders.data(), "workspaces")


def known_workspaces() -> list[str]:
    """Workspaces that were made or used on this machine; one path a line, those that are gone left out."""
    try:
        paths = fsio.read_text(_list_of_workspaces(), "surrogateescape").split("\n")
    except OSError:
        return []
    known = [path for path in dict.fromkeys(paths) if path and _is_text(path)]
    return [path for path in known if os.path.isdir(os.path.join(path, ".workspace"))]


def remember_workspace(root: str) -> None:
    """Add a workspace to the list, so that `list`, `search` and `doctor` find it from everywhere."""
    if root not in known_workspaces() and "\n" not in root:
        fsio.ensure_folder(folders.data())
        fsio.append_once(_list_of_workspaces(), os.fsencode(root) + b"\n")


def adopt_workspace(root: str) -> bool:
    """See to it that a workspace can be used here; whether its git had to be told how to merge conversations.

    A clone brings everything along but that, and its place on the list. What cannot be written is left.
    """
    if not _is_text(root) or not os.path.isfile(os.path.join(root, ".workspace", "installed.json")):
        return False
    try:
        if root not in known_workspaces():
            remember_workspace(root)
        if _has_driver(os.path.join(root, ".git", "config")):
            return False
        from cortext.services.workspace import merge_driver as merging
        from cortext.services.workspace.git import Git

        git = Git(root)
        return git.is_repository() and merging.set_driver(git, " ".join(PROGRAM))
    except (OSError, CortextError):
        return False


def _has_driver(path: str) -> bool:
    try:
        return b'[merge "cortext"]' in fsio.read_file(path)
    except OSError:  # a worktree, a submodule, or no repository: git itself is asked
        return False


def _own_prompt(path: str) -> str:
    """The user's own system prompt; empty where no file is named."""
    if not path:
        return ""
    try:
        return fsio.read_text(os.path.expanduser(path))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read chat.prompt_file {path}: {error}", hint="mend the path or the file") from error
