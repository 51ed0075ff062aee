"""Our entries in the config files of the AI tools: put in beside what the user has, and removed to the byte.

An adapter describes its files (`JsonConfig`, `TomlConfig`) and what goes into them (`Hooks`, `Server`, `Setting`);
`install` and `remove` do the rest. All new texts are worked out before the first file is written, so a broken file
changes nothing anywhere.

An entry carries the sign that it is ours: a comment at the end of a hook's command, a variable of the MCP server. It
also says which containers were there before us and empty (`keep`): those stay when the entry goes. Where the
config has a note of its own beside it, that is where this stands.
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
from cortext.io import files as fsio
from cortext.io.inside import inside
from cortext.tools.shared.jsonc import JsonError, JsonText, parse

NAME = "cortext"  # of our MCP server, and of our hooks where hooks have names
_MARK = re.compile(r" # (?:put here by )?cortext(?: keep(?P<keep>(?: [A-Za-z]+)+)|(?: [a-z]+)*)$")
_TOOL, _KEEP = "CORTEXT_TOOL", "CORTEXT_KEEP"
_FILE = "file"  # stands for the file itself among the containers to keep
_NOTE = "what cortext added to the settings beside this file; `cortext uninstall` needs it"

Path = tuple[str | int, ...]
Json = dict[str, Any]


class Change(NamedTuple):
    """A file's text before and after; None where there is no file."""

    path: str
    old: str | None
    new: str | None


class Config(Protocol):
    """A config file of a tool in a project, with our entries."""

    def installed(self, project: str) -> list[Change]:
        """The changes that put the entries in."""

    def removed(self, project: str) -> list[Change]:
        """The changes that take them out."""


def install(project: str, configs: Sequence[Config], *, dry_run: bool = False) -> list[str]:
    """Put our entries into the project's config files; the files that changed or, with `dry_run`, would change."""
    return _apply(project, [change for config in configs for change in config.installed(project)], dry_run=dry_run)


def remove(project: str, configs: Sequence[Config], *, dry_run: bool = False) -> list[str]:
    """Take exactly those out again; the files that changed or would change."""
    return _apply(project, [change for config in configs for change in config.removed(project)], dry_run=dry_run)


def _apply(project: str, changes: list[Change], *, dry_run: bool) -> list[str]:
    changes = [change for change in changes if change.new != change.old]
    for path, _, new in () if dry_run else changes:
        folder = os.path.dirname(path)
        if new is not None:
            fsio.ensure_folder(folder)
            fsio.replace_file(path, [new.encode("utf-8")])
            continue
        fsio.remove(path)
        if folder != project and os.path.isdir(folder) and not os.listdir(folder):
            fsio.remove_tree(folder)
    return [change.path for change in changes]


def read_config(path: str) -> str | None:
    """The text of a config file; None where there is none. A link at the end of the path is refused."""
    try:
        descriptor = fsio.open_file(path, os.O_RDONLY)
        with os.fdopen(descriptor, "rb") as file:
            raw = file.read(fsio.SMALL_FILE + 1)
        if len(raw) > fsio.SMALL_FILE:
            raise _broken(path, "read", "it is too large for a config file")
        return raw.decode("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeDecodeError as error:
        raise _broken(path, "read", "it is not UTF-8") from error
    except OSError as error:
        raise _broken(path, "read", error.strerror or str(error)) from error


def parse_toml(path: str, text: str) -> Json:
    """The tables of a TOML file."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise _broken(path, "used", f"it is not TOML ({error})") from error


def toml_string(text: str) -> str:
    """A TOML string on one line: as JSON has it, but for one character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _broken(path: str, verb: str, reason: str) -> ConfigError:
    return ConfigError(
        f"{path} cannot be {verb}: {reason}",
        kept="it is unchanged, and so is everything else",
        hint="fix the file, then try again",
    )


# ── entries of a JSON file ───────────────────────────────────────────────────────────────────────────


class Entry(Protocol):
    """Something of ours in a JSON file. `note` is what is written down about it elsewhere, where that is needed."""

    def containers(self) -> list[Path]:
        """The objects and lists that it stands in, the outer ones first."""

    def kept(self, document: JsonText) -> set[str]:
        """The containers to keep, as the entries that are there say."""

    def install(self, document: JsonText, keep: str, note: Json) -> None:
        """Put it in, or bring it up to date; what the user added to it stays."""

    def remove(self, document: JsonText, note: Json) -> list[Path]:
        """Take it out; the containers that it was taken out of."""


class Hooks(msgspec.Struct, frozen=True):
    """A hook of ours for each event. `mark` is the comment behind its command, `update` whether to replace another
    hook of ours that is there.
    """

    events: dict[str, Json]
    mark: str = " # cortext"
    update: bool = True

    def containers(self) -> list[Path]:
        return [("hooks",), *(("hooks", event) for event in self.events)]

    def kept(self, document: JsonText) -> set[str]:
        marks = (_mark(document.get(path)) for path in self._find(document))
        return {word for mark in marks if mark for word in (mark["keep"] or "").split()}

    def install(self, document: JsonText, keep: str, note: Json) -> None:
        for event, hook in self.events.items():
            ours = list(self._find(document, event))
            if not ours:
                command = hook["command"] + self.mark + (f" keep {keep}" if keep else "")
                document.append(("hooks", event), {"hooks": [{**hook, "command": command}]})
            elif self.update:
                first, *others = ours
                for other in reversed(others):
                    _remove_hook(document, other)
                mark = _mark(document.get(first))
                _update(document, first, {**hook, "command": hook["command"] + (mark[0] if mark else self.mark)})

    def remove(self, document: JsonText, note: Json) -> list[Path]:
        found = list(self._find(document))
        for path in reversed(found):
            _remove_hook(document, path)
        return [path[:2] for path in found]

    def _find(self, document: JsonText, event: str = "") -> Iterator[Path]:
        """Where our hooks are (of one event, if given)."""
        for name, groups in _dict_at(document, ("hooks",)).items():
            for number, group in enumerate(groups if isinstance(groups, list) and event in ("", name) else ()):
                hooks = group.get("hooks") if isinstance(group, dict) else None
                for place, hook in enumerate(hooks if isinstance(hooks, list) else ()):
                    if isinstance(hook, dict) and (hook.get("name") == NAME or _mark(hook)):
                        yield ("hooks", name, number, "hooks", place)


def _mark(hook: Json) -> re.Match[str] | None:
    command = hook.get("command")
    return _MARK.search(command) if isinstance(command, str) else None


def _remove_hook(document: JsonText, path: Path) -> None:
    document.remove(path)
    if not document.get(path[:-1]):
        document.remove(path[:-2])


class Server(msgspec.Struct, frozen=True):
    """Our MCP server under our name at `path`; `value[env]` holds the variable that says that it is ours."""

    path: str
    value: Json
    env: str = "env"

    @classmethod
    def of(cls, tool: str, program: Sequence[str], path: str = "mcpServers", **more: Any) -> Server:
        """The usual form: command, arguments and environment."""
        call = {"command": program[0], "args": [*program[1:], "mcp"], "env": {_TOOL: tool}}
        return cls(path, {**call, **more})

    def containers(self) -> list[Path]:
        return [(self.path,)]

    def kept(self, document: JsonText) -> set[str]:
        entry = self._ours(document)
        return set(str(entry.get(self.env, {}).get(_KEEP, "")).split()) if entry else set()

    def install(self, document: JsonText, keep: str, note: Json) -> None:
        if self._ours(document):
            _update(document, (self.path, NAME), self.value)
        elif document.get((self.path, NAME)) is None:
            env = {**self.value[self.env], **({_KEEP: keep} if keep else {})}
            document.set((self.path, NAME), {**self.value, self.env: env})

    def remove(self, document: JsonText, note: Json) -> list[Path]:
        if not self._ours(document):
            return []
        document.remove((self.path, NAME))
        return [(self.path,)]

    def _ours(self, document: JsonText) -> Json | None:
        entry = _dict_at(document, (self.path,)).get(NAME)
        if not isinstance(entry, dict):
            return None
        env = entry.get(self.env)
        signed = isinstance(env, dict) and env.get(_TOOL) == self.value[self.env][_TOOL]
        described = "description" in entry and entry["description"] == self.value.get("description")
        return entry if signed or described else None


class Setting(msgspec.Struct, frozen=True):
    """A setting of the tool that we need. The note says whether it was there, or (under `name`) what it was."""

    name: str
    path: tuple[str, ...]
    value: Any

    def containers(self) -> list[Path]:
        return [self.path[:depth] for depth in range(1, len(self.path))]

    def kept(self, document: JsonText) -> set[str]:
        return set()

    def install(self, document: JsonText, keep: str, note: Json) -> None:
        before = document.get(self.path)
        if before == self.value:
            return
        if before is not None:
            note[self.name] = before
        elif not self._made(note):
            note["made"] = [list(self.path)]
        document.set(self.path, self.value)

    def remove(self, document: JsonText, note: Json) -> list[Path]:
        if document.get(self.path) != self.value:
            return []
        if note.get(self.name) is not None:
            document.set(self.path, note[self.name])
        elif self._made(note):
            document.remove(self.path)
            return [self.path[:-1]]
        return []

    def _made(self, note: Json) -> bool:
        made = note.get("made")
        return isinstance(made, list) and list(self.path) in made


def _update(document: JsonText, path: Path, value: Json) -> None:
    for key, wanted in value.items():
        if isinstance(wanted, dict) and isinstance(document.get((*path, key)), dict):
            _update(document, (*path, key), wanted)
        else:
            document.set((*path, key), wanted)


def _dict_at(document: JsonText, path: Path) -> Json:
    value = document.get(path)
    if value is not None and not isinstance(value, dict):
        raise JsonError(f"{'.'.join(map(str, path))} is not an object")
    return value or {}


# ── files ────────────────────────────────────────────────────────────────────────────────────────────


class JsonConfig(msgspec.Struct, frozen=True):
    """A JSON file. Of several `paths` the one with our entries is used, else one that exists, else the first.

    `comments` and `trailing_commas` say what the tool accepts beyond plain JSON, `initial` what a new file holds
    besides our entries, `note` the file beside it that says what was there before us.
    """

    paths: tuple[str, ...]
    entries: Sequence[Entry]
    comments: bool = False
    trailing_commas: bool = False
    initial: Json = {}
    note: str = ""

    def installed(self, project: str) -> list[Change]:
        path, old = self._choose(project)
        note_path, note_text, note = self._note(project)
        with _usable(path):
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
        changes = [Change(path, old, document.text if old or document.value != self.initial else old)]
        if self.note and keep:
            note["keep"] = sorted(keep)
        if note:
            text = json.dumps({"what": _NOTE, **note}, ensure_ascii=False, indent=2) + "\n"
            changes.append(Change(note_path, note_text, text))
        return changes

    def removed(self, project: str) -> list[Change]:
        note_path, note_text, note = self._note(project)
        changes = []
        for name in self.paths:
            path = inside(project, name)
            old = read_config(path)
            if old is not None:
                with _usable(path):
                    changes.append(Change(path, old, self._without(old, note)))
        return [*changes, Change(note_path, note_text, None)]

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
            with _usable(path):
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
        words = {str(word) for word in noted} if isinstance(noted, list) else set()
        return words.union(*(entry.kept(document) for entry in self.entries))

    def _note(self, project: str) -> tuple[str, str | None, Json]:
        path = inside(project, self.note) if self.note else ""
        text = read_config(path) if path else None
        try:
            value = parse(text or "{}")
        except JsonError:
            value = {}
        return path, text, value if isinstance(value, dict) else {}


@contextmanager
def _usable(path: str) -> Iterator[None]:
    """Name the file whose contents are not as they should be."""
    try:
        yield
    except JsonError as error:
        raise _broken(path, "used", str(error)) from error


class TomlConfig(msgspec.Struct, frozen=True):
    """A TOML file with our MCP server at its end, between two comment lines."""

    path: str
    table: str  # that holds the servers
    entry: str
    begin: str
    end: str

    def installed(self, project: str) -> list[Change]:
        path = inside(project, self.path)
        old = read_config(path)
        block = f"{self.begin}\n{self.entry}\n{self.end}\n"
        if old is None:
            return [Change(path, None, block)]
        value = parse_toml(path, old)
        if found := self._block().search(old):
            lead = "\n" if found[0].startswith("\n") else ""
            return [Change(path, old, f"{old[: found.start()]}{lead}{block}{old[found.end() :]}")]
        if NAME in value.get(self.table, {}):
            return []  # the user's own server of that name
        new = f"{old}\n{block}"
        try:
            tomllib.loads(new)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise _broken(path, "used", f"[{self.table}.{NAME}] cannot be added to it ({error})") from error
        return [Change(path, old, new)]

    def removed(self, project: str) -> list[Change]:
        path = inside(project, self.path)
        old = read_config(path)
        found = self._block().search(old) if old is not None else None
        if old is None or found is None:
            return []
        rest = old[: found.start()] + old[found.end() :]
        # Without a line break before it, the block was the beginning of a file that we created.
        return [Change(path, old, rest if rest or found[0].startswith("\n") else None)]

    def _block(self) -> re.Pattern[str]:
        return re.compile(rf"\n?{re.escape(self.begin)}\n.*?{re.escape(self.end)}\n?", re.DOTALL)
