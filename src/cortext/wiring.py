"""The one place that builds the objects: which stores there are, and what each is made of.

Nothing heavy is imported at the top: a command that needs no store must not pay for one.
"""

from __future__ import annotations

import os

from cortext import config
from cortext.errors import ConfigError, NotFound, UsageError

TYPE_CHECKING = False  # as mypy knows it: importing typing would cost a quarter of our start-up
if TYPE_CHECKING:
    from collections.abc import Sequence

    from cortext.llm.base import Model
    from cortext.llm.connection import Limits
    from cortext.services.backfill import Embedder
    from cortext.services.capture import Capture
    from cortext.services.chat_turn import Assistant
    from cortext.services.chat_worker import ChatWorker
    from cortext.services.listing import Listing
    from cortext.services.search import Search
    from cortext.services.stores import NamedStore
    from cortext.store.assistant_files import FileUpdates
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

# The providers of models, in the order in which they are tried where none is named: name, module and class.
MODELS = {
    "anthropic": ("anthropic_api", "AnthropicModel"),
    "openai": ("openai_api", "OpenAIModel"),
    "gemini": ("gemini_api", "GeminiModel"),
    "ollama": ("ollama_api", "OllamaModel"),
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

    def open(self, place: StorePlace, timeout: float | None = None) -> Store:
        """The store itself; `timeout` is how long it waits for another writer, if not as the settings say."""
        timeout = self.settings["store.lock_timeout"] if timeout is None else timeout
        load_msgspec()
        if place.kind in (WORKSPACE, HOME):
            from cortext.store.workspace import WorkspaceStore

            return WorkspaceStore(place.root, lock_timeout=timeout)
        if place.kind == SPAWN:
            from cortext.store.spawn import SpawnStore

            return SpawnStore(place.root, lock_timeout=timeout)
        from cortext.store.chat import ChatStore

        return ChatStore(place.root, lock_timeout=timeout)

    def listing(self, kind: str = "") -> Listing:
        """The list of all sessions, or of those in stores of one kind."""
        from functools import partial

        from cortext.index.sessions import StoreSource
        from cortext.services.listing import Listing

        places = [place for place in self.places() if place.exists and kind in ("", place.kind)]
        sources = [StoreSource(place.root, place.kind, place.control, partial(self.open, place)) for place in places]
        return Listing(config.cache_folder(), sources, {place.root: place.label for place in places})

    def search(self) -> Search:
        """Search over all sessions."""
        from cortext.services.search import Search

        return Search(self.listing(), config.cache_folder())

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

    def spawn_store(self, timeout: float | None = None) -> NamedStore:
        """The store of `aur`; it is made when it is first written to."""
        from cortext.services.stores import NamedStore

        place = next(place for place in self.places() if place.kind == SPAWN)
        return NamedStore(place.label, place.kind, place.root, self.open(place, timeout))

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
        if name not in TOOLS:
            raise UsageError(f"unknown AI tool {name!r}", hint=f"one of {', '.join(TOOLS)}")
        module, cls = TOOLS[name]
        made: Tool = getattr(__import__(f"cortext.tools.{module}", fromlist=[cls]), cls)()
        return made

    def tools(self) -> list[Tool]:
        """Every adapter."""
        return [self.tool(name) for name in TOOLS]

    def model(self, name: str = "") -> Model:
        """The model of that name; else the one of the settings; else the first that is usable here."""
        from cortext.llm.connection import Limits
        from cortext.services import models

        limits = Limits(
            connect=self.settings["model.connect_seconds"],
            silence=self.settings["model.silence_seconds"],
            retries=self.settings["model.retries"],
            streaming=self.settings["model.stream"],
        )
        sources = {provider: ModelSource(provider, limits) for provider in MODELS}
        chosen = models.choose(name or self.settings["model.name"], sources)
        return models.Masked(chosen) if self.settings["model.mask"] else chosen

    # ── the assistant ────────────────────────────────────────────────────────────────────────────────

    def chat_place(self) -> StorePlace:
        """Where the assistant keeps its sessions."""
        return next(place for place in self.places() if place.kind == CHAT)

    def assistant(self, model: str = "") -> Assistant:
        """The assistant: its sessions, its memory, and the model that answers."""
        from cortext.services.chat import COMMAND_LINE, ChatSessions
        from cortext.services.chat_context import ContextBuilder
        from cortext.services.chat_turn import Assistant, Models
        from cortext.services.memory import Memory
        from cortext.store.assistant_files import FileChats, FileFacts

        place, folder = self.chat_place(), config.assistant_folder(self.settings)
        chats = FileChats(os.path.join(folder, "chats"), COMMAND_LINE, os.path.join(place.root, "current.json"))
        memory = Memory(FileFacts(os.path.join(folder, "memory", "memories.jsonl")), self.alike)
        contexts = ContextBuilder(
            memory,
            limit=self.settings["chat.context_tokens"],
            facts=self.settings["chat.facts_tokens"],
            own_prompt=_own_prompt(self.settings["chat.prompt_file"]),
        )
        return Assistant(
            ChatSessions(self.open(place), place.root, chats, self.listing),
            memory,
            contexts,
            Models(lambda: self.model(model or self.settings["chat.model"])),
            search=lambda: self.search(),
            embedder=self.embedder,
            auto_create=self.settings["chat.auto_create"],
            keep_messages=self.settings["chat.keep_messages"],
        )

    def embedder(self) -> Embedder | None:
        """What makes vectors of the assistant's messages."""
        return None

    def alike(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """How alike a query is to each of these texts, by meaning."""
        return [0.0 for _ in texts]

    def chat_worker(self, assistant: Assistant) -> ChatWorker:
        """What looks after the assistant's sessions while nobody waits."""
        from cortext import fsio
        from cortext.index.chores import Chores
        from cortext.services.chat_worker import ChatWorker

        place = self.chat_place()
        return ChatWorker(
            assistant.store,
            self.listing(),
            Chores(config.cache_folder(), place.root),
            embedder=self.embedder,
            models=assistant.models,
            lock=fsio.Lock(os.path.join(place.control, "worker.lock")),
            idle_minutes=self.settings["session.idle_minutes"],
            compact_tokens=self.settings["chat.compact_tokens"],
            keep_messages=self.settings["chat.keep_messages"],
        )

    def bot_updates(self, bot: int) -> FileUpdates:
        """The journal of one bot."""
        from cortext.store.assistant_files import FileUpdates

        return FileUpdates(os.path.join(config.assistant_folder(self.settings), "telegram", f"{bot}.jsonl"))


class ModelSource:
    """The models of one provider."""

    def __init__(self, provider: str, limits: Limits) -> None:
        module, self._class = MODELS[provider]
        self._module = import_module(f"cortext.llm.{module}")
        self._limits = limits
        self.needs: str = self._module.NEEDS

    def here(self) -> str:
        """The model to use where none is named."""
        found: str = self._module.here()
        return found

    def make(self, name: str) -> Model:
        """The model of that name."""
        made: Model = getattr(self._module, self._class)(name, self._limits)
        return made


def load_msgspec() -> None:
    """Import msgspec without typing_extensions, which it asks for and can do without: 15 ms of every command."""
    import sys

    if "msgspec" in sys.modules or "typing_extensions" in sys.modules:
        return
    sys.modules["typing_extensions"] = None  # type: ignore[assignment]  # importing it then fails, for a moment
    try:
        import msgspec  # noqa: F401
    finally:
        del sys.modules["typing_extensions"]


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


def _own_prompt(path: str) -> str:
    """The user's own system prompt; empty where no file is named."""
    if not path:
        return ""
    try:
        with open(os.path.expanduser(path), encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read chat.prompt_file {path}: {error}", hint="mend the path or the file") from error
