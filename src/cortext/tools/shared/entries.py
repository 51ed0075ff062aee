"""Our entries in the JSON config file of an AI tool: hooks, the MCP server, a setting that cortext needs.

An entry is marked as ours: by a comment at the end of a hook's command, by a variable of the MCP server. The mark also
lists the empty containers that existed before (`keep`), which stay when the entry is removed. If a note file is kept
beside the config, the note lists them instead.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import msgspec

from cortext.io import durable
from cortext.io.inside import if_inside
from cortext.tools.shared.jsonc import JsonError, JsonText, read_object

NAME = "cortext"  # of our MCP server, and of our hooks if the tool names its hooks
_MARK = re.compile(r" # (?:put here by )?cortext(?: keep(?P<keep>(?: [A-Za-z]+)+)|(?: [a-z]+)*)$")
_TOOL, _KEEP = "CORTEXT_TOOL", "CORTEXT_KEEP"

Path = tuple[str | int, ...]
Json = dict[str, Any]


class ConfigEntry(Protocol):
    """One of our entries in a JSON file. `note` is the content of the note file, empty if the config has none."""

    def containers(self) -> list[Path]:
        """Return the objects and lists that contain it, the outer ones first."""

    def kept(self, document: JsonText) -> set[str]:
        """Return the containers to keep, as the marks of the installed entries list them."""

    def install(self, document: JsonText, keep: str, note: Json) -> None:
        """Add it, or update it; what the user added to it stays."""

    def remove(self, document: JsonText, note: Json) -> list[Path]:
        """Remove it; return the containers that it was removed from."""


class Hooks(msgspec.Struct, frozen=True):
    """One hook for each event. `mark` is the comment after its command, `update` whether to replace a hook of ours that
    is already installed, `matcher` which occasions of the event it is for. Hooks of ours for `retired`
    events, which an earlier version installed, are removed.
    """

    events: dict[str, Json]
    mark: str = " # cortext"
    update: bool = True
    matcher: str = ""
    retired: tuple[str, ...] = ()

    def containers(self) -> list[Path]:
        return [("hooks",), *(("hooks", event) for event in self.events)]

    def kept(self, document: JsonText) -> set[str]:
        marks = (_mark(document.get(path)) for path in self._find(document))
        return {name for mark in marks if mark for name in (mark["keep"] or "").split()}

    def install(self, document: JsonText, keep: str, note: Json) -> None:
        for event in self.retired:
            for path in reversed(list(self._find(document, event))):
                _remove_hook(document, path)
                if document.get(path[:2]) == [] and event not in keep.split():
                    document.remove(path[:2])
        for event, hook in self.events.items():
            ours = list(self._find(document, event))
            if not ours:
                command = hook["command"] + self.mark + (f" keep {keep}" if keep else "")
                matcher = {"matcher": self.matcher} if self.matcher else {}
                document.append(("hooks", event), {**matcher, "hooks": [{**hook, "command": command}]})
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
        """Yield the paths of our hooks (of one event, if given)."""
        for name, groups in _dict_at(document, ("hooks",)).items():
            for number, group in enumerate(groups if isinstance(groups, list) and event in ("", name) else ()):
                hooks = group.get("hooks") if isinstance(group, dict) else None
                for index, hook in enumerate(hooks if isinstance(hooks, list) else ()):
                    if isinstance(hook, dict) and (hook.get("name") == NAME or _mark(hook)):
                        yield ("hooks", name, number, "hooks", index)


def _mark(hook: Json) -> re.Match[str] | None:
    command = hook.get("command")
    return _MARK.search(command) if isinstance(command, str) else None


def _remove_hook(document: JsonText, path: Path) -> None:
    document.remove(path)
    if not document.get(path[:-1]):
        document.remove(path[:-2])


class Server(msgspec.Struct, frozen=True):
    """Our MCP server, under our name at `path`. A variable in `value[env]` marks it as ours."""

    path: str
    value: Json
    env: str = "env"

    @classmethod
    def of(cls, tool: str, program: Sequence[str], path: str = "mcpServers", **more: Any) -> Server:
        """Return a server in the form that most tools use: command, arguments and environment."""
        value = {"command": program[0], "args": [*program[1:], "mcp"], "env": {_TOOL: tool}}
        return cls(path, {**value, **more})

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
        has_variable = isinstance(env, dict) and env.get(_TOOL) == self.value[self.env][_TOOL]
        has_description = "description" in entry and entry["description"] == self.value.get("description")
        return entry if has_variable or has_description else None


class Setting(msgspec.Struct, frozen=True):
    """A setting that cortext needs. The note records that it was missing or, under `name`, its old value."""

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
        elif not self._was_missing(note):
            note["made"] = [list(self.path)]
        document.set(self.path, self.value)

    def remove(self, document: JsonText, note: Json) -> list[Path]:
        if document.get(self.path) != self.value:
            return []
        if note.get(self.name) is not None:
            document.set(self.path, note[self.name])
        elif self._was_missing(note):
            document.remove(self.path)
            return [self.path[:-1]]
        return []

    def _was_missing(self, note: Json) -> bool:
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


# ── the MCP servers that a tool has ────────────────────────────────────────────────────────────────


def servers_of(user: str, project: str, *names: str, key: str = "mcpServers") -> set[str]:
    """Return the names under a key of the user's settings file and of these files of a project."""
    paths = (user, *(if_inside(project, name) for name in names))
    return {server for path in paths for server in names_in(path, key)}


def names_in(path: str, *keys: str) -> set[str]:
    """Return the names under these keys of a JSON or TOML settings file; none if it is missing or invalid."""
    value: Any = _toml(path) if path.endswith(".toml") else read_object(path)
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return named(value)


def named(value: Any) -> set[str]:
    """Return the names in a table of servers, or in a list of tables that each have a name."""
    if isinstance(value, list):
        return {item["name"] for item in value if isinstance(item, dict) and isinstance(item.get("name"), str)}
    return set(value) if isinstance(value, dict) else set()


def _toml(path: str) -> Any:
    try:
        return tomllib.loads(durable.read_text(path))
    except (OSError, ValueError, RecursionError):
        return {}
