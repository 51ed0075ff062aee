"""Installing our entries in the config files of the AI tools, and removing them so that every byte is as before.

An adapter describes its files (`JsonConfig`, `TomlConfig`) and their entries (`entries`); `install` and `remove` do the
rest. All new texts are computed before the first file is written, so that nothing is changed if one file is broken.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import msgspec

from cortext.errors import ConfigError
from cortext.io import durable
from cortext.io.inside import inside
from cortext.tools.shared.entries import NAME, ConfigEntry, Json, Server, Setting, named
from cortext.tools.shared.jsonc import JsonError, JsonText, parse

_FILE = "file"  # stands for the file itself among the containers to keep
_NOTE = "what cortext changed in the settings beside this file; it is needed to undo that"


class FileChange(NamedTuple):
    """The text of a file before and after a change; None if the file does not exist."""

    path: str
    old: str | None
    new: str | None


class Config(Protocol):
    """A tool's config file in a project, with our entries."""

    def installed(self, project: str) -> list[FileChange]:
        """Return the changes that add the entries."""

    def removed(self, project: str) -> list[FileChange]:
        """Return the changes that remove them."""

    def without_server(self) -> Config | None:
        """Return the same without our MCP server; None if that is the only entry."""


def install(project: str, configs: Sequence[Config], *, server: bool = True, dry_run: bool = False) -> list[str]:
    """Add our entries to the project's config files; return the files that changed or, with `dry_run`, would.

    Without `server`, our MCP server is not added; an existing one stays.
    """
    if not server:
        configs = [rest for config in configs if (rest := config.without_server()) is not None]
    return _apply(project, [change for config in configs for change in config.installed(project)], dry_run=dry_run)


def remove(project: str, configs: Sequence[Config], *, dry_run: bool = False) -> list[str]:
    """Remove exactly those entries again; return the files that changed or, with `dry_run`, would."""
    return _apply(project, [change for config in configs for change in config.removed(project)], dry_run=dry_run)


def _apply(project: str, changes: list[FileChange], *, dry_run: bool) -> list[str]:
    changes = [change for change in changes if change.new != change.old]
    for path, _, new in () if dry_run else changes:
        folder = os.path.dirname(path)
        if new is not None:
            durable.ensure_folder(folder)
            durable.replace_file(path, [new.encode("utf-8")])
            continue
        durable.remove(path)
        if folder != project and os.path.isdir(folder) and not os.listdir(folder):
            durable.remove_tree(folder)
    return [change.path for change in changes]


def packaged_script(module: str, name: str) -> str:
    """Return the text of a script beside a module (its `__file__`)."""
    return durable.read_text(os.path.join(os.path.dirname(os.path.abspath(module)), name))


def read_config(path: str) -> str | None:
    """Return the text of a config file; None if it does not exist. Raise ConfigError if it is a link or unreadable."""
    try:
        descriptor = durable.open_file(path, os.O_RDONLY)
        with os.fdopen(descriptor, "rb") as file:
            raw = file.read(durable.SMALL_FILE + 1)
        if len(raw) > durable.SMALL_FILE:
            raise _unusable(path, "read", "it is too large for a config file")
        return raw.decode("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeDecodeError as error:
        raise _unusable(path, "read", "it is not UTF-8") from error
    except OSError as error:
        raise _unusable(path, "read", error.strerror or str(error)) from error


def parse_toml(path: str, text: str) -> Json:
    """Return the tables of a TOML file; raise ConfigError if it is invalid."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise _unusable(path, "used", f"it is not TOML ({error})") from error


def toml_string(text: str) -> str:
    """Return a TOML string on one line. JSON strings are valid TOML except for the character DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _unusable(path: str, verb: str, reason: str) -> ConfigError:
    return ConfigError(
        f"{path} cannot be {verb}: {reason}", kept="no file was changed", hint="fix the file and try again"
    )


# ── files ────────────────────────────────────────────────────────────────────────────────────────────


class JsonConfig(msgspec.Struct, frozen=True):
    """A JSON file. Of several `paths`, the one with our entries is used, else one that exists, else the first.

    `comments` and `trailing_commas` say what the tool accepts beyond plain JSON, `initial` is what a new file contains
    besides our entries, and `note` is the path of the note file that records what was there before.
    """

    paths: tuple[str, ...]
    entries: Sequence[ConfigEntry]
    comments: bool = False
    trailing_commas: bool = False
    initial: Json = {}
    note: str = ""

    def installed(self, project: str) -> list[FileChange]:
        path, old = self._choose(project)
        note_path, note_text, note = self._note(project)
        with _naming_the_file(path):
            document = self._document(old)
            keep = self._kept(document, note) | {
                str(container[-1])
                for entry in self.entries
                for container in entry.containers()
                if document.get(container) in ({}, [])
            }
            if old is not None and document.value == self.initial:
                keep.add(_FILE)
            for entry in self.entries:
                entry.install(document, "" if self.note else " ".join(sorted(keep)), note)
        changes = []
        if self.note and keep:
            note["keep"] = sorted(keep)
        if note:  # before the file itself: without the note, its previous state could not be restored
            text = json.dumps({"what": _NOTE, **note}, ensure_ascii=False, indent=2) + "\n"
            changes.append(FileChange(note_path, note_text, text))
        changes.append(FileChange(path, old, document.text if old or document.value != self.initial else old))
        return changes

    def removed(self, project: str) -> list[FileChange]:
        note_path, note_text, note = self._note(project)
        changes = []
        for name in self.paths:
            path = inside(project, name)
            old = read_config(path)
            if old is not None:
                with _naming_the_file(path):
                    changes.append(FileChange(path, old, self._without(old, note)))
        return [*changes, FileChange(note_path, note_text, None)]

    def without_server(self) -> JsonConfig | None:
        entries = [entry for entry in self.entries if not isinstance(entry, Server)]
        return msgspec.structs.replace(self, entries=entries) if entries else None

    def _without(self, text: str, note: Json) -> str | None:
        document = self._document(text)
        before = document.text
        keep = self._kept(document, note)
        touched = [path for entry in self.entries for path in entry.remove(document, note)]
        for container in touched:
            while container and document.get(container) in ({}, []) and container[-1] not in keep:
                document.remove(container)
                container = container[:-1]
        if touched and document.value == self.initial and _FILE not in keep:
            return None
        return document.text if document.text != before else text

    def _choose(self, project: str) -> tuple[str, str | None]:
        paths = [inside(project, name) for name in self.paths]
        found = [(path, text) for path in paths if (text := read_config(path)) is not None]
        for path, text in found if len(paths) > 1 else ():
            with _naming_the_file(path):
                if self._without(text, {}) != text:
                    return path, text
        return found[0] if found else (paths[0], None)

    def _document(self, text: str | None) -> JsonText:
        if text is None or (self.comments and not text.strip()):
            text = json.dumps(self.initial, indent=2) + "\n"
        document = JsonText(text, comments=self.comments, trailing_commas=self.trailing_commas)
        if not isinstance(document.value, dict):
            raise JsonError("it is not an object")
        return document

    def _kept(self, document: JsonText, note: Json) -> set[str]:
        noted = note.get("keep")
        names = {str(name) for name in noted} if isinstance(noted, list) else set()
        return names.union(*(entry.kept(document) for entry in self.entries))

    def _note(self, project: str) -> tuple[str, str | None, Json]:
        path = inside(project, self.note) if self.note else ""
        text = read_config(path) if path else None
        try:
            value = parse(text or "{}")
        except JsonError:
            value = {}
        return path, text, value if isinstance(value, dict) else {}


@contextmanager
def _naming_the_file(path: str) -> Iterator[None]:
    """Turn a JsonError inside into a ConfigError that names this file."""
    try:
        yield
    except JsonError as error:
        raise _unusable(path, "used", str(error)) from error


class TomlConfig(msgspec.Struct, frozen=True):
    """A TOML file with an entry of ours at its end, between two comment lines: our MCP server, or a hook."""

    path: str
    table: str  # the table, or the list of tables, that the entry belongs to
    entry: str
    begin: str
    end: str
    is_server: bool = True

    def installed(self, project: str) -> list[FileChange]:
        path = inside(project, self.path)
        old = read_config(path)
        block = f"{self.begin}\n{self.entry}\n{self.end}\n"
        if old is None:
            return [FileChange(path, None, block)]
        value = parse_toml(path, old)
        if found := self._block().search(old):
            lead = "\n" if found[0].startswith("\n") else ""
            return [FileChange(path, old, f"{old[: found.start()]}{lead}{block}{old[found.end() :]}")]
        if NAME in named(value.get(self.table)):
            return []  # the user's own entry of that name
        new = f"{old}\n{block}"
        try:
            tomllib.loads(new)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise _unusable(path, "used", f"[{self.table}.{NAME}] cannot be added to it ({error})") from error
        return [FileChange(path, old, new)]

    def removed(self, project: str) -> list[FileChange]:
        path = inside(project, self.path)
        old = read_config(path)
        found = self._block().search(old) if old is not None else None
        if old is None or found is None:
            return []
        rest = old[: found.start()] + old[found.end() :]
        # A block without a line break before it is the start of a file that we created.
        return [FileChange(path, old, rest if rest or found[0].startswith("\n") else None)]

    def without_server(self) -> TomlConfig | None:
        return None if self.is_server else self

    def _block(self) -> re.Pattern[str]:
        return re.compile(rf"\n?{re.escape(self.begin)}\n.*?{re.escape(self.end)}\n?", re.DOTALL)


# ── what an adapter does with its files ────────────────────────────────────────────────────────────


class SettingsFiles:
    """The two methods of `Installer` that change settings, for an adapter that says which entries it has."""

    def configs(self, program: Sequence[str] = ("cortext",)) -> Sequence[Config]:
        """Return our entries in the settings files of a project; `program` is how to call cortext."""
        raise NotImplementedError

    def install_settings(
        self, project: str, program: Sequence[str], *, server: bool = True, dry_run: bool = False
    ) -> list[str]:
        """Add our entries, those of the MCP server only if `server`; return the files that changed, or would."""
        return install(project, self.configs(program), server=server, dry_run=dry_run)

    def remove_settings(self, project: str, *, dry_run: bool = False) -> list[str]:
        """Remove exactly what `install_settings` added; return the files that changed, or would."""
        return remove(project, self.configs(), dry_run=dry_run)


# ── how long a tool keeps its conversations ────────────────────────────────────────────────────────


DAY = 86_400.0
_SETTINGS = "settings.json"
_RETENTION_NOTE = "cortext-retention.json"


class Retention:
    """The setting by which an AI tool deletes its own conversations, in `settings.json` in its folder below the home.

    The previous value is in a note beside the settings, so that it can be restored byte for byte even if cortext's own
    folders are gone.
    """

    def __init__(self, folder: str, path: tuple[str, ...], keeping: Any, *, comments: bool = False) -> None:
        self._folder, self._path, self._keeping, self._comments = folder, path, keeping, comments

    def raise_it(self, *, dry_run: bool) -> list[str]:
        """Set the value with which nothing is deleted; return the files that changed or would."""
        return self._settings(install(self._folder, [self._config()], dry_run=dry_run))

    def restore(self, *, dry_run: bool) -> list[str]:
        """Set the noted value again; return the files that changed or would."""
        return self._settings(remove(self._folder, [self._config()], dry_run=dry_run))

    def _config(self) -> JsonConfig:
        entry = Setting("retention", self._path, self._keeping)
        return JsonConfig((_SETTINGS,), [entry], comments=self._comments, note=_RETENTION_NOTE)

    @staticmethod
    def _settings(paths: list[str]) -> list[str]:
        return [path for path in paths if os.path.basename(path) != _RETENTION_NOTE]
