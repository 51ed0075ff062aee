"""Reading the settings from every source, and which workspaces the user trusts.

Later sources override earlier ones: the defaults, the user's `config.toml`, the workspace's `.workspace/config.toml`,
the environment, the command line. A workspace comes from git, and so possibly from strangers: until the user trusts it,
only those settings in its file that are marked `untrusted_ok` are used. They change presentation and time limits, never
which program is run, where data is sent or which model is asked. Trust is stored as a fingerprint of the folder and its
settings file, so a change of the file revokes it.
"""

from __future__ import annotations

import hashlib
import os
from typing import Any, TypeVar

import msgspec

from cortext.config import folders
from cortext.config.folders import checked_workspace_file, user_file, workspace_file
from cortext.config.schema import REMOVED, SETTINGS, NamedSetting, Settings, Value
from cortext.errors import ConfigError, UnsafePath
from cortext.io import durable
from cortext.safety.credentials import is_address

Table = TypeVar("Table", bound=msgspec.Struct)

LARGEST = 1 << 53  # a larger number is not a plausible count or time
LARGEST_FILE = 64 << 10  # bytes of a settings file
# On one line: `tomllib` needs 18 seconds for a key of 32,000 parts, because it walks from the first for each.
MOST_DOTS = 200
_BOOLEANS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
_EXPECTED = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


def load(workspace: str = "", *, trusted: bool = False, only_reads: bool = False) -> Settings:
    """Return the settings from all sources; raise ConfigError if one of them is invalid.

    For a command that `only_reads`, an invalid file of the workspace, or a link out of it, counts as empty and is noted
    as `broken`: it comes from git, and must not hide the conversations beside it.
    """
    values: dict[str, Value] = {}
    ignored: dict[str, str] = {}
    unknown: dict[str, str] = {}
    broken: dict[str, str] = {}
    path = user_file()
    for name, value in by_dotted_name(_read(path)):
        if name in REMOVED:
            unknown[name] = path
            continue
        if name not in SETTINGS:
            raise ConfigError(f"{path}: unknown setting {name}", hint=f"use one of {', '.join(sorted(SETTINGS))}")
        values[name] = parse(SETTINGS[name], value, path)
    if workspace:
        path = workspace_file(workspace)
        try:
            for name, value in workspace_values(workspace).items():
                if name not in SETTINGS:
                    unknown[name] = path
                elif trusted or SETTINGS[name].untrusted_ok:
                    values[name] = parse(SETTINGS[name], value, path)
                else:
                    ignored[name] = path
        except (ConfigError, UnsafePath) as error:
            if not only_reads:
                raise
            broken[path] = error.message
    for setting in SETTINGS.values():
        if given := os.environ.get(setting.variable):
            values[setting.name] = parse(setting, given, f"${setting.variable}")
    return msgspec.structs.replace(_with(Settings(), values), ignored=ignored, unknown=unknown, broken=broken)


def parse(setting: NamedSetting, value: Any, source: str) -> Value:
    """Return the value in the type of the setting; raise ConfigError if it cannot be converted."""
    kind = type(setting.default)
    try:
        if kind is bool:
            return _BOOLEANS[value.lower()] if isinstance(value, str) else bool(value)
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise TypeError
        parsed = kind(value)
        if not isinstance(parsed, str) and not abs(parsed) <= LARGEST:  # written so that NaN is refused too
            raise ValueError
        return parsed
    except (KeyError, ValueError, TypeError, OverflowError):
        raise ConfigError(
            f"{source}: {setting.name} = {ascii(value)[:80]} is not {_EXPECTED[kind]}",
            kept="nothing was changed",
            hint=f"{setting.help}; default: {setting.default!r}",
        ) from None


def server_address(settings: Settings) -> str:
    """Return the address of the server that keeps the sessions; empty if they are in files.

    It may contain a password: never show it.
    """
    address = settings.store.url
    if address in ("", "files"):
        return ""
    if not is_address(address):
        raise ConfigError(
            "the setting `store` is neither the address of a PostgreSQL server nor `files`",
            kept="nothing was changed",
            hint="use an address like postgresql://user@host/database, in config.toml or in CORTEXT_STORE",
        )
    return address


def workspace_values(workspace: str) -> dict[str, Any]:
    """Return the values in the settings file of a workspace, by dotted name."""
    return dict(by_dotted_name(_read(checked_workspace_file(workspace))))


def _with(settings: Settings, values: dict[str, Value]) -> Settings:
    """Return the settings with these values, which are given by dotted name."""
    for name, value in values.items():
        settings = _replaced(settings, name.split("."), value)
    return settings


def _replaced(table: Table, path: list[str], value: Value) -> Table:
    key, *rest = path
    return msgspec.structs.replace(table, **{key: _replaced(getattr(table, key), rest, value) if rest else value})


def by_dotted_name(table: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Return the values of a table and of its nested tables, by dotted name."""
    pairs: list[tuple[str, Any]] = []
    for name, value in table.items():
        if isinstance(value, dict):
            pairs += by_dotted_name(value, f"{prefix}{name}.")
        else:
            # `store = "postgresql://…"` is short for `url` in the table `[store]`.
            pairs.append(("store.url" if prefix + name == "store" else prefix + name, value))
    return pairs


def _read(path: str) -> dict[str, Any]:
    try:
        if not os.path.lexists(path):
            return {}
        raw = durable.read_file(path)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise ConfigError(
            f"cannot read {path}: {error.strerror}",
            kept="it is unchanged",
            hint="make it a readable file, or remove it",
        ) from error
    if len(raw) > LARGEST_FILE:
        raise ConfigError(
            f"{path} is too large: {len(raw):,} bytes, the limit is {LARGEST_FILE:,}",
            kept="nothing was changed",
            hint="shorten or remove it",
        )
    import tomllib

    try:
        if any(line.count(b".") > MOST_DOTS for line in raw.split(b"\n")):
            raise RecursionError
        found = tomllib.loads(raw.decode("utf-8"))
        by_dotted_name(found)  # raises RecursionError here rather than in a caller
        return found
    except RecursionError as error:
        raise ConfigError(
            f"{path} is nested too deeply",
            kept="nothing was changed",
            hint="give each setting a name and a plain value",
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path} is not TOML: {error}", kept="nothing was changed", hint="fix the syntax error on that line"
        ) from error


def settings_of(workspace: str, *, only_reads: bool = False) -> Settings:
    """Return the settings for a workspace, or for no workspace if this is empty; `only_reads` as in `load`."""
    return load(workspace, trusted=bool(workspace) and is_trusted(workspace), only_reads=only_reads)


def is_trusted(workspace: str) -> bool:
    """Whether the user trusts the settings of this workspace as they are now."""
    try:
        fingerprints = durable.read_text(_trusted_file(), "surrogateescape").split("\n")
        return _fingerprint(workspace) in fingerprints
    except (OSError, UnsafePath):
        return False


def trust(workspace: str) -> None:
    """Store that the user trusts the settings of this workspace as they are now."""
    durable.ensure_folder(folders.data())
    durable.append_once(_trusted_file(), _fingerprint(workspace).encode("utf-8", "surrogateescape") + b"\n")


def _fingerprint(workspace: str) -> str:
    """Return the hash of the settings file and the folder, as one line."""
    try:
        digest = hashlib.sha256(durable.read_file(folders.checked_workspace_file(workspace))).hexdigest()
    except OSError:
        digest = "none"
    return f"{digest} {workspace}"


def _trusted_file() -> str:
    return os.path.join(folders.data(), "trusted")
