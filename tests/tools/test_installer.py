"""The installer that all adapters share: updates, entries of earlier versions, and the user's own settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cortext.errors import ConfigError
from cortext.testing.table import every_row
from cortext.tools.shared.entries import ConfigEntry, Hooks, Server, Setting
from cortext.tools.shared.installer import FileChange, JsonConfig, install, remove

PATH = ".tool/settings.json"


def config(*, command: str = "cortext hook tool", note: bool = False) -> JsonConfig:
    hook = {"type": "command", "command": command, "timeout": 10}
    entries: list[ConfigEntry] = [Hooks({"Start": hook, "Stop": hook}), Server.of("tool", command.split()[:1])]
    if note:
        entries.append(Setting("retention", ("general", "keep"), True))
    return JsonConfig((PATH,), entries, note=".tool/note.json" if note else "")


def write_config(project: Path, value: Any) -> Path:
    path = project / PATH
    path.parent.mkdir(exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value, indent=2), encoding="utf-8")
    return path


def read_back(project: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((project / PATH).read_text(encoding="utf-8"))
    return value


@every_row("note", [False, True])
@every_row(
    "text",
    [
        "{}",
        '{"hooks": {}}',
        '{"hooks": {"Stop": []}, "mcpServers": {}}',
        '{"general": {}}',
        '{"general": {"keep": false}}',
        '{"general": {"keep": true}}',
    ],
)
def test_empty_containers_of_the_user_stay(tmp_path: Path, text: str, note: bool) -> None:
    write_config(tmp_path, text)

    assert install(str(tmp_path), [config(note=note)])
    assert install(str(tmp_path), [config(note=note)]) == []
    remove(str(tmp_path), [config(note=note)])

    assert {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / ".tool").iterdir()} == {
        "settings.json": text
    }


@pytest.mark.parametrize("note", [False, True])
def test_a_dry_run_names_the_files_and_writes_none(tmp_path: Path, note: bool) -> None:
    planned = install(str(tmp_path), [config(note=note)], dry_run=True)
    assert list(tmp_path.iterdir()) == []
    assert install(str(tmp_path), [config(note=note)]) == planned

    # The note is written first and removed last.
    assert remove(str(tmp_path), [config(note=note)], dry_run=True) == planned[::-1]
    assert (tmp_path / PATH).exists()
    assert remove(str(tmp_path), [config(note=note)]) == planned[::-1]
    assert list(tmp_path.iterdir()) == []


def test_an_update_keeps_what_the_user_added_to_our_entries(tmp_path: Path) -> None:
    install(str(tmp_path), [config()])
    edited = read_back(tmp_path)
    edited["mcpServers"]["cortext"] |= {"trust": True}
    edited["mcpServers"]["cortext"]["env"]["MINE"] = "1"
    edited["hooks"]["Stop"][0]["hooks"][0]["matcher"] = "*"
    write_config(tmp_path, edited)

    assert install(str(tmp_path), [config()]) == []
    assert install(str(tmp_path), [config(command="/opt/cortext hook tool")]) == [str(tmp_path / PATH)]

    server = read_back(tmp_path)["mcpServers"]["cortext"]
    assert server == {
        "command": "/opt/cortext",
        "args": ["mcp"],
        "env": {"CORTEXT_TOOL": "tool", "MINE": "1"},
        "trust": True,
    }
    (hook,) = read_back(tmp_path)["hooks"]["Stop"][0]["hooks"]
    assert hook["matcher"] == "*" and hook["command"] == "/opt/cortext hook tool # cortext"


def test_duplicates_of_our_hook_become_one(tmp_path: Path) -> None:
    our_hook = {"type": "command", "command": "old # cortext", "timeout": 10}
    users_hook = {"type": "command", "command": "say done"}
    write_config(tmp_path, {"hooks": {"Stop": [{"hooks": [our_hook, users_hook]}, {"hooks": [our_hook]}]}})

    install(str(tmp_path), [config()])
    assert read_back(tmp_path)["hooks"]["Stop"] == [
        {"hooks": [{**our_hook, "command": "cortext hook tool # cortext"}, users_hook]}
    ]
    remove(str(tmp_path), [config()])
    assert read_back(tmp_path) == {"hooks": {"Stop": [{"hooks": [users_hook]}]}}


def test_entries_of_earlier_versions_are_recognised_and_kept(tmp_path: Path) -> None:
    install(str(tmp_path), [config()])
    for mark in (" # put here by cortext file hooks list", " # put here by cortext", " # cortext keep file list"):
        edited = read_back(tmp_path)
        for event in ("Start", "Stop"):
            edited["hooks"][event][0]["hooks"][0]["command"] = f"cortext hook tool{mark}"
        write_config(tmp_path, edited)
        assert install(str(tmp_path), [config()]) == [], mark

    install(str(tmp_path), [config(command="/opt/cortext hook tool")])
    assert read_back(tmp_path)["hooks"]["Stop"][0]["hooks"][0]["command"].endswith(" # cortext keep file list")
    remove(str(tmp_path), [config()])
    assert read_back(tmp_path) == {}, "the comment says that the file existed before"


def test_the_users_setting_is_restored(tmp_path: Path) -> None:
    write_config(tmp_path, {"general": {"keep": "7d"}})

    install(str(tmp_path), [config(note=True)])
    assert read_back(tmp_path)["general"]["keep"] is True
    remove(str(tmp_path), [config(note=True)])

    assert read_back(tmp_path) == {"general": {"keep": "7d"}}


def test_a_setting_that_the_user_changed_later_stays(tmp_path: Path) -> None:
    install(str(tmp_path), [config(note=True)])
    write_config(tmp_path, {**read_back(tmp_path), "general": {"keep": "7d"}})

    remove(str(tmp_path), [config(note=True)])

    assert read_back(tmp_path) == {"general": {"keep": "7d"}}
    assert not (tmp_path / ".tool/note.json").exists()


def test_a_broken_note_is_ignored(tmp_path: Path) -> None:
    for text in ("{", "[]", '{"made": [["a"], 1, null], "keep": 3}'):
        (tmp_path / ".tool").mkdir(exist_ok=True)
        (tmp_path / ".tool/note.json").write_text(text, encoding="utf-8")
        install(str(tmp_path), [config(note=True)])
        remove(str(tmp_path), [config(note=True)])
        assert list(tmp_path.iterdir()) == []


def test_nothing_is_written_if_the_second_file_is_broken(tmp_path: Path) -> None:
    other = JsonConfig(("other.json",), [Server.of("tool", ["cortext"])])
    (tmp_path / "other.json").write_text("{", encoding="utf-8")

    with pytest.raises(ConfigError, match=r"other\.json cannot be used: line 1"):
        install(str(tmp_path), [config(), other])

    assert [path.name for path in tmp_path.iterdir()] == ["other.json"]


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    with open(write_config(tmp_path, "{}"), "ab") as file:
        file.truncate(17 << 20)

    with pytest.raises(ConfigError, match="too large"):
        install(str(tmp_path), [config()])


def test_a_change_has_the_old_and_the_new_text(tmp_path: Path) -> None:
    path = str(write_config(tmp_path, '{"a": 1}'))

    (change,) = config().installed(str(tmp_path))

    assert isinstance(change, FileChange) and (change.path, change.old) == (path, '{"a": 1}')
    assert change.new is not None and json.loads(change.new)["a"] == 1
