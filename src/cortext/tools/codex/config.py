"""Our entries in a project's `.codex` folder: hooks in hooks.json, the MCP server in config.toml.

What the user has there stays as it is. Our hooks are known by the comment at the end of their command, which
also says what we had to make for them; our part of config.toml stands between two comment lines.

Codex reads both files only in a project that the user trusts, and runs a hook only once the user has looked
at it: at its next start it asks ("Hooks need review"), and notes the hash of each hook that was approved, by
file, event and place in the list, in the user's own config.toml. So ours go to the end of the lists, and an
unchanged entry is never touched: either would cost the user another review.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import tomllib
from collections.abc import Sequence
from typing import Any

from cortext.errors import ConfigError, UnsafePath
from cortext.io import files as fsio
from cortext.io.inside import inside

# What we ask for with each event. Without a limit of its own, an answer of more than 10,000 characters
# would reach the model cut in the middle.
_WAIT = {"timeout": 10}
_LISTEN = {**_WAIT, "additionalContextLimit": 200_000}
_EVENTS = {
    "SessionStart": _LISTEN,
    "UserPromptSubmit": _LISTEN,
    "PostCompact": _WAIT,
    "Stop": _WAIT,
    "SessionEnd": {"timeout": 3},  # Codex allows no more here, and says so at every start
}
_MARK = re.compile(r"(.*) # put here by cortext((?: [a-z]+)*)", re.DOTALL)
_BEGIN = "# >>> cortext: its MCP server; taken out again by cortext >>>"
_END = "# <<< cortext <<<"
_BLOCK = re.compile(rf"\n?{re.escape(_BEGIN)}\n.*?{re.escape(_END)}\n?", re.DOTALL)


def merge(project: str, program: Sequence[str], *, dry_run: bool = False) -> list[str]:
    """Put our entries in; the files that changed, or, dry, would change."""
    hooks, config = _paths(project)
    planned = [(hooks, _hooks_with(hooks, program)), (config, _config_with(config, program))]
    return _carry_out(planned, dry_run=dry_run)


def unmerge(project: str, *, dry_run: bool = False) -> list[str]:
    """Take our entries out; the files that changed, or, dry, would change."""
    hooks, config = _paths(project)
    planned = [(hooks, _hooks_without(hooks)), (config, _config_without(config))]
    changed = _carry_out(planned, dry_run=dry_run)
    folder = os.path.dirname(hooks)
    if changed and not dry_run and os.path.isdir(folder) and not os.listdir(folder):
        fsio.remove_tree(folder)
    return changed


def untrusted(settings: str, project: str) -> str:
    """What the user has to do before Codex runs our hooks; empty where its settings say that it was done."""
    hooks = os.path.realpath(_paths(project)[0])
    try:
        state = _toml(settings, _read(os.path.realpath(settings)) or "").get("hooks", {}).get("state", {})
        keys = [os.path.realpath(key.partition("hooks.json:")[0] + "hooks.json") for key in state]
    except (AttributeError, TypeError, ConfigError, UnsafePath):
        return ""  # its settings are not as we know them: nothing can be said
    if keys.count(hooks) >= len(_EVENTS):
        return ""
    return 'start codex in the project once, and answer "Hooks need review" with "Trust all and continue"'


def _paths(project: str) -> tuple[str, str]:
    return (
        inside(project, os.path.join(".codex", "hooks.json")),
        inside(project, os.path.join(".codex", "config.toml")),
    )


def _carry_out(planned: list[tuple[str, str | None]], *, dry_run: bool) -> list[str]:
    """Write what was planned; nothing is written before everything was read and understood."""
    changed = [(path, text) for path, text in planned if text != _read(path)]
    for path, text in () if dry_run else changed:
        if text is None:
            fsio.remove(path)
        else:
            fsio.ensure_folder(os.path.dirname(path))
            fsio.replace_file(path, [text.encode("utf-8")])
    return [path for path, _ in changed]


def _read(path: str) -> str | None:
    """The text of a config file; None where there is none."""
    try:
        with os.fdopen(fsio.open_file(path, os.O_RDONLY), encoding="utf-8", newline="") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _broken(path, error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise _broken(path, "it is not UTF-8 text") from error


def _broken(path: str, why: str) -> ConfigError:
    return ConfigError(f"{path} cannot be used: {why}", kept="it is unchanged", hint="mend it, then try again")


# ── hooks.json ───────────────────────────────────────────────────────────────────────────────────────


def _hooks_with(path: str, program: Sequence[str]) -> str | None:
    text = _read(path)
    root = _parse(path, text) if text is not None else {}
    made = ["file"] if text is None else []
    if "hooks" not in root:
        made.append("hooks")
    hooks = _object(path, root.setdefault("hooks", {}))
    line = shlex.join([*program, "hook", "codex"])
    same = True
    for event, asked in _EVENTS.items():
        words = made if event in hooks else [*made, "list"]
        groups = _list(path, hooks.setdefault(event, []))
        ours = [group for group in groups if _mark(group) is not None]
        if ours:
            words = _mark(ours[0]) or []
        command = " ".join([line, "# put here by cortext", *words])
        wanted = {"hooks": [{"type": "command", "command": command, **asked}]}
        if ours == [wanted]:
            continue
        same = False
        if ours:
            groups[groups.index(ours[0])] = wanted
            groups[:] = [group for group in groups if group is wanted or _mark(group) is None]
        else:
            groups.append(wanted)
    return text if same else _format(root, text)


def _hooks_without(path: str) -> str | None:
    text = _read(path)
    if text is None:
        return None
    root = _parse(path, text)
    hooks = root.get("hooks")
    if not isinstance(hooks, dict):
        return text
    made: set[str] = set()
    for event, groups in list(hooks.items()):
        marks = [mark for group in groups if (mark := _mark(group)) is not None] if isinstance(groups, list) else []
        if not marks:
            continue
        groups[:] = [group for group in groups if _mark(group) is None]
        words = {word for mark in marks for word in mark}
        made |= words | {"any"}
        if not groups and "list" in words:
            del hooks[event]
    if not made:
        return text
    if not hooks and "hooks" in made:
        del root["hooks"]
    if not root and "file" in made:
        return None
    return _format(root, text)


def _mark(group: Any) -> list[str] | None:
    """What the comment in our hook says that we made; None where the hook is not ours."""
    hooks = group.get("hooks") if isinstance(group, dict) else None
    if not isinstance(hooks, list) or len(hooks) != 1 or not isinstance(hooks[0], dict):
        return None
    command = hooks[0].get("command")
    found = _MARK.fullmatch(command) if isinstance(command, str) else None
    return found[2].split() if found else None


def _parse(path: str, text: str) -> dict[str, Any]:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) != len(pairs):
            raise ValueError("a key stands there twice")
        return value

    try:
        return _object(path, json.loads(text, object_pairs_hook=once))
    except (ValueError, RecursionError) as error:
        raise _broken(path, f"it is not JSON ({error})") from error


def _object(path: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _broken(path, "an object was expected")
    return value


def _list(path: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise _broken(path, "a list of hooks was expected")
    return value


def _format(root: dict[str, Any], like: str | None) -> str:
    """JSON in the style of the text that was there."""
    if like is None:
        return json.dumps(root, indent=2, ensure_ascii=False) + "\n"
    body = like.strip()
    found = re.search(r"\n([ \t]+)\S", body)
    indent = found[1] if found else ("  " if "\n" in body or body in ("{}", "") else None)
    separators = (",", ":") if indent is None and '": ' not in body else None
    text = json.dumps(root, indent=indent, separators=separators, ensure_ascii=like.isascii())
    before, after = like[: len(like) - len(like.lstrip())], like[len(like.rstrip()) :]
    return before + text + after


# ── config.toml ──────────────────────────────────────────────────────────────────────────────────────


def _config_with(path: str, program: Sequence[str]) -> str | None:
    text = _read(path)
    block = _config_block(program)
    if text is None:
        return block
    _toml(path, text)
    if found := _BLOCK.search(text):
        lead = "\n" if found[0].startswith("\n") else ""
        return text[: found.start()] + lead + block + text[found.end() :]
    if "cortext" in _toml(path, text).get("mcp_servers", {}):
        return text  # the user's own entry of that name stays, and counts
    after = f"{text}\n{block}"
    try:
        tomllib.loads(after)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise _broken(path, f"there is no place for [mcp_servers.cortext] in it ({error})") from error
    return after


def _config_without(path: str) -> str | None:
    text = _read(path)
    found = _BLOCK.search(text) if text is not None else None
    if text is None or found is None:
        return text
    rest = text[: found.start()] + text[found.end() :]
    # Without a line break before it, the block was the beginning of a file that we made.
    return rest if rest or found[0].startswith("\n") else None


def _config_block(program: Sequence[str]) -> str:
    command, *arguments = [*program, "mcp"]
    listed = ", ".join(_toml_text(argument) for argument in arguments)
    entry = (
        f'[mcp_servers.cortext]\ncommand = {_toml_text(command)}\nargs = [{listed}]\nenv = {{ CORTEXT_TOOL = "codex" }}'
    )
    return f"{_BEGIN}\n{entry}\n{_END}\n"


def _toml_text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _toml(path: str, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise _broken(path, f"it is not TOML ({error})") from error
