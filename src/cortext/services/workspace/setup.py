"""Turning a folder into a workspace, keeping what was installed up to date, and removing exactly that again.

Whole files of ours are identified by their hash in `.workspace/installed.json`: unedited ones are updated or removed,
edited ones are kept and named. In the user's files (a tool's settings) only our own entries are touched, by the adapter
that knows the format.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence

import msgspec

from cortext import __version__
from cortext.errors import ConfigError, CortextError, UnsafePath
from cortext.io import durable, inside, locks
from cortext.model.ids import is_plain_name
from cortext.services.library.stores import NamedStore
from cortext.services.projects.git import Git, set_merge_driver, unset_merge_driver
from cortext.services.workspace import installed_tools, registry
from cortext.services.workspace.merge_driver import attributes
from cortext.services.workspace.registry import Registry
from cortext.store.capabilities import MendsLineEnds
from cortext.store.files.layout_paths import NUMBER_FILE, NUMBER_LOCK
from cortext.tools.base import CommandFile, Installer

MANIFEST = ".workspace/installed.json"
_STATE = ".workspace/state"
_BEGIN, _END = "# >>> cortext", "# <<< cortext"
# What a store keeps in .workspace/state, all of it derived.
_DERIVED = frozenset({"locks", "changes", "uncommitted", "ignored-told", ".gitignore", NUMBER_FILE, NUMBER_LOCK})


class Manifest(msgspec.Struct, kw_only=True):
    """What was installed: by which version, for which tools, and the hash of each whole file as we wrote it.

    `unended` names the user's files whose last line had no newline before we appended our lines.
    """

    version: str = ""
    tools: list[str] = []
    files: dict[str, str] = {}
    unended: list[str] = []


class Report(msgspec.Struct, kw_only=True):
    """What was done or, in a dry run, would be done; paths are relative to the workspace."""

    written: list[str] = []
    unchanged: list[str] = []
    kept: list[str] = []  # edited by the user
    removed: list[str] = []
    merged: list[str] = []  # the user's own files, with our entries in them


def load_manifest(root: str) -> Manifest:
    """Return the manifest; an empty one if there is none."""
    raw = inside.read(root, MANIFEST)
    try:
        return Manifest() if raw is None else msgspec.json.decode(raw, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{MANIFEST} cannot be used: {error}", kept="nothing was changed") from error


class Setup:
    """The setup of one workspace; `program` is how the tools are to call us."""

    def __init__(
        self,
        root: str,
        tools: Sequence[Installer],
        program: Sequence[str],
        *,
        dry_run: bool = False,
    ) -> None:
        self.root, self.tools, self.program, self.dry_run = root, tools, program, dry_run
        self._manifest = load_manifest(root)
        self.server = installed_tools.has_mcp_sdk()  # without it, the tools would report a server that does not start
        self._report = Report()

    def install(self) -> Report:
        """Install everything or bring it up to date. Repeating it changes nothing."""
        # What could refuse comes first: a broken file of the user's must leave nothing half done.
        known = registry.load(self.root)
        added = registry.add_built_in(known)
        wanted = self._files(known)
        self._check_paths(wanted)
        self._split_at_markers(".gitattributes")
        for tool in self.tools:
            tool.install_settings(self.root, self.program, server=self.server, dry_run=True)
        self._install_settings()
        if not self.dry_run:
            durable.ensure_folder(inside.inside(self.root, ".workspace"))
        self._registry(known, added=added)
        for path, contents in wanted.items():
            self._write_file(path, contents)
        self._remove_obsolete(wanted)
        self._write_block(".gitattributes", attributes(self._manifest.files))
        self._set_up_git()
        self._manifest.version = __version__
        self._manifest.tools = sorted({*self._manifest.tools, *(tool.name for tool in self.tools)})
        self._save_manifest()
        return self._report

    def _check_paths(self, wanted: Iterable[str]) -> None:
        """Refuse paths that lead out of the workspace: registry and manifest may be a stranger's."""
        for path in (*wanted, *self._manifest.files):
            if not all(map(is_plain_name, path.split("/"))):
                raise UnsafePath(
                    f"this would be outside the workspace: {ascii(path)[:120]}",
                    kept="nothing was changed",
                    hint=f"see {registry.RELATIVE} and {MANIFEST}",
                )
            inside.read(self.root, path)
        inside.inside(self.root, _STATE)

    def _install_settings(self) -> None:
        """Add our entries to each tool's settings. If one refuses, newly added ones are removed again."""
        made = not os.path.isdir(self.root)
        done: list[Installer] = []
        try:
            for tool in self.tools:
                changed = tool.install_settings(self.root, self.program, server=self.server, dry_run=self.dry_run)
                self._report.merged += _relative(self.root, changed)
                done.append(tool)
        except CortextError:
            if not self.dry_run:
                for tool in done:
                    if tool.name not in self._manifest.tools:
                        tool.remove_settings(self.root)
                if made:
                    _remove_if_empty(self.root, stop=os.path.dirname(self.root))
            raise

    def _set_up_git(self) -> None:
        """Create a repository if there is none, and configure the merge driver."""
        git = Git(self.root)
        if not git.is_repository():
            if not git.is_installed():
                return
            self._report.written.append(".git")
            if not self.dry_run:
                git.init()
                set_merge_driver(git, " ".join(self.program))
        elif set_merge_driver(git, " ".join(self.program), dry_run=self.dry_run):
            self._report.merged += _relative(self.root, [git.config_file()])

    def uninstall(self) -> Report:
        """Remove what install added; conversations and whatever the user edited stay."""
        self._check_paths(())
        self._split_at_markers(".gitattributes")
        registry.load(self.root)
        for tool in self.tools:
            tool.remove_settings(self.root, dry_run=True)
        for tool in self.tools:
            self._report.merged += _relative(self.root, tool.remove_settings(self.root, dry_run=self.dry_run))
        for path in sorted(self._manifest.files, reverse=True):
            self._remove_file(path)
        self._remove_registry()
        self._write_block(".gitattributes", ())
        git = Git(self.root)
        if unset_merge_driver(git, dry_run=self.dry_run):
            self._report.merged += _relative(self.root, [git.config_file()])
        if os.path.exists(os.path.join(self.root, MANIFEST)):
            self._report.removed.append(MANIFEST)
        if not self.dry_run:
            inside.remove(self.root, MANIFEST)
            _remove_idle_state(inside.inside(self.root, _STATE))
            _remove_if_empty(os.path.join(self.root, ".workspace"), stop=self.root)
        return self._report

    def _remove_registry(self) -> None:
        """Remove the registry if it contains only our own types; otherwise it stays with the user's."""
        if inside.read(self.root, registry.RELATIVE) is None:
            return
        if registry.load(self.root).types != {
            name: registry.entry_of(name, text) for name, text in registry.BUILT_IN.items()
        }:
            self._report.kept.append(registry.RELATIVE)
            return
        self._report.removed.append(registry.RELATIVE)
        if not self.dry_run:
            inside.remove(self.root, registry.RELATIVE)

    def _files(self, known: Registry) -> dict[str, bytes]:
        """Return every whole file that belongs to us, for the types and tools of this workspace."""
        files: dict[str, bytes] = {}
        for name in registry.BUILT_IN:
            files[f".workspace/commands/{name}.md"] = registry.shipped("commands", f"{name}.md")
            files[f".workspace/templates/{name}.md"] = registry.shipped("templates", f"{name}.md")
        commands = self._commands(known, files)
        for tool in self.tools:
            files |= tool.files(commands, self.program)
        return files

    def _commands(self, known: Registry, files: dict[str, bytes]) -> list[CommandFile]:
        """Return the slash commands: one for each type (with the user's text if edited), and our own."""
        commands = []
        for name, kind in known.types.items():
            text = self._text(kind.command_file, files.get(kind.command_file))
            if text:
                command = kind.command.removeprefix("/")
                about = kind.description or name
                commands.append(CommandFile(name=command, description=about, text=text, file=kind.command_file))
        return [*commands, *registry.own_commands()]

    def _text(self, path: str, shipped: bytes | None) -> str:
        """Return the final text of a command's file: the user's if edited, else ours."""
        try:
            existing = registry.read_own(self.root, path) if path else None
        except OSError:  # one that we may not read
            existing = None
        unedited = existing is None or self._manifest.files.get(path) == _hash(existing)
        raw = shipped if shipped is not None and unedited else existing
        try:
            return (raw or b"").decode("utf-8")
        except UnicodeDecodeError:
            return ""

    def _registry(self, known: Registry, *, added: bool) -> None:
        """Write the registry if built-in types were missing; what the user changed in it stays."""
        path = registry.RELATIVE
        if not added:
            self._report.unchanged.append(path)
            return
        self._report.written.append(path)
        if not self.dry_run:
            registry.save(self.root, known)

    def _write_file(self, path: str, contents: bytes) -> None:
        """Write one whole file, unless the user has edited it."""
        existing = inside.read(self.root, path)
        if existing == contents:
            self._manifest.files[path] = _hash(contents)
            self._report.unchanged.append(path)
            return
        if existing is not None and self._manifest.files.get(path) != _hash(existing):
            self._report.kept.append(path)
            return
        self._report.written.append(path)
        self._manifest.files[path] = _hash(contents)
        if not self.dry_run:
            inside.write(self.root, path, contents)

    def _remove_obsolete(self, wanted: dict[str, bytes]) -> None:
        """Remove unedited files of an earlier version that this one does not have."""
        ours = {name for tool in self.tools for name in (tool.name,)}
        for path in [path for path in self._manifest.files if path not in wanted]:
            if set(self._manifest.tools) <= ours:  # all tools are known here, so the file belongs to none of them
                self._remove_file(path)

    def _remove_file(self, path: str) -> None:
        existing = inside.read(self.root, path)
        if existing is None:
            self._manifest.files.pop(path, None)
            return
        if self._manifest.files.get(path) != _hash(existing):
            self._report.kept.append(path)
            return
        self._report.removed.append(path)
        self._manifest.files.pop(path, None)
        if not self.dry_run:
            target = inside.inside(self.root, path)
            durable.remove(target)
            _remove_if_empty(os.path.dirname(target), stop=self.root)

    def _write_block(self, name: str, lines: Sequence[str]) -> None:
        """Write our lines into one of the user's files, between two markers; without lines, remove the markers too."""
        old, before, after = self._split_at_markers(name)
        if lines and before and not before.endswith("\n"):
            before += "\n"
            self._manifest.unended = [*self._manifest.unended, name]
        elif not lines and not after and name in self._manifest.unended:
            before = before.removesuffix("\n")
        block = "\n".join([_BEGIN, *lines, _END, ""]) if lines else ""
        new = before + block + after
        if new == old:
            return
        self._report.merged.append(name)
        if self.dry_run:
            return
        if new:
            inside.write(self.root, name, new.encode("utf-8", "surrogateescape"))
        else:
            inside.remove(self.root, name)

    def _split_at_markers(self, name: str) -> tuple[str, str, str]:
        """Return one of the user's files: all of it, and the parts before and after our lines."""
        path = os.path.join(self.root, name)
        old = (inside.read(self.root, name) or b"").decode("utf-8", "surrogateescape")
        before, begin, rest = _split_at(old, _BEGIN)
        _, end, after = _split_at(rest, _END) if begin else ("", "", "")
        if begin and not end:
            raise ConfigError(f"{path}: the line {_END!r} is missing", kept="it is unchanged", hint="restore that line")
        return old, before, after

    def _save_manifest(self) -> None:
        raw = msgspec.json.format(msgspec.json.encode(self._manifest, order="sorted"), indent=2) + b"\n"
        if inside.read(self.root, MANIFEST) != raw:
            self._report.written.append(MANIFEST)
            if not self.dry_run:
                inside.write(self.root, MANIFEST, raw)


def mend_line_ends(named_store: NamedStore, *, dry_run: bool = False) -> list[str]:
    """Mend the conversations that git checked out with CRLF; return their folders. One in use is mended next time."""
    mended: list[str] = []
    store = named_store.store
    if not isinstance(store, MendsLineEnds):
        return mended
    for session in store.sessions():
        try:
            if store.mend_line_ends(session.id, dry_run=dry_run):
                mended += _relative(named_store.root, [session.path])
        except (CortextError, OSError):
            continue
    return mended


def _hash(contents: bytes) -> str:
    """Return the hash of a file, whatever line ends git gave it (`core.autocrlf`)."""
    return hashlib.sha256(contents.replace(b"\r\n", b"\n")).hexdigest()


def _split_at(text: str, line: str) -> tuple[str, str, str]:
    """Split a text at a line, which may end with CRLF."""
    return max((text.partition(line + end) for end in ("\n", "\r\n")), key=lambda parts: bool(parts[1]))


def _relative(root: str, paths: Sequence[str]) -> list[str]:
    return [os.path.relpath(path, root) if os.path.isabs(path) else path for path in paths]


def _remove_idle_state(folder: str) -> None:
    """Remove the locks of a store that no process writes to; whatever else is there (the trash) stays."""
    try:
        names = set(os.listdir(folder))
        held = os.listdir(os.path.join(folder, "locks")) if "locks" in names else []
    except (FileNotFoundError, NotADirectoryError):
        return
    if os.path.islink(os.path.join(folder, "locks")):
        return
    if names <= _DERIVED and not any(locks.read_holder(os.path.join(folder, "locks", name)) for name in held):
        durable.remove_tree(folder)


def _remove_if_empty(folder: str, stop: str = "") -> None:
    """Remove a folder that is empty, and its parents up to but not including `stop`."""
    while folder and folder != stop and os.path.isdir(folder) and not os.listdir(folder):
        durable.remove_tree(folder)
        folder = os.path.dirname(folder)
