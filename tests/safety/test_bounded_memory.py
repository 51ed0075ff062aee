"""A long history, and lines of many megabytes: commands use no more memory than with a short history."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.cli import SCRIPTS, cortext, git
from tests.support.much import LONG_LINE, MEGABYTE, taken, write_log

pytestmark = pytest.mark.req("SAFE-06")
ID = "001-plan-herons"


def workspace(folder: Path) -> Path:
    """Create a workspace with one conversation; return its log."""
    folder.mkdir()
    git(folder, "init", "-q")
    assert cortext("init", "--ai", "claude", cwd=folder).code == 0
    assert cortext("new", "plan", "Herons", cwd=folder).code == 0
    [log] = folder.glob(f"conversations/*/{ID}/.session/messages.jsonl")
    return log


def peak(folder: Path, *words: str) -> float:
    """Return the command's peak memory in MB."""
    done = taken([str(SCRIPTS / "cortext"), *words], cwd=str(folder), env=os.environ)
    assert done.code == 0 and "Traceback" not in done.err, (words, done)
    return done.peak


def test_saving_and_exporting_use_no_more_memory_for_a_long_session(home: Path, tmp_path: Path) -> None:
    """Holding all messages would take at least 1.6 kB each: over 60 MB here."""
    peaks: dict[str, list[float]] = {}
    for count in (600, 40_000):
        folder = tmp_path / str(count)
        write_log(str(workspace(folder)), messages=count)
        for words in (("stop", ID, "--no-commit"), ("export", ID), ("export", ID, "--format", "json")):
            peaks.setdefault(" ".join(words), []).append(peak(folder, *words))
        shown = cortext("show", ID, "--tail", "1", cwd=folder)
        assert f"message {count - 1} about herons" in shown.out and f"{count:,} messages" in shown.out
        assert "herons at dawn" in cortext("list", "--json", cwd=folder).json[0]["summary"]
    grown = {words: many - few for words, (few, many) in peaks.items()}
    assert max(grown.values()) < 30, (grown, peaks)


def test_lists_and_searches_do_not_load_a_long_line(home: Path, tmp_path: Path) -> None:
    """The line is found by its first words; its length makes no difference."""
    commands = (("list",), ("search", "--exact", "dawn"), ("doctor",), ("stop", ID, "--no-commit"))
    peaks: dict[str, list[float]] = {}
    for size in (1, 60):
        folder = tmp_path / str(size)
        write_log(str(workspace(folder)), line=size * MEGABYTE)
        for words in commands:
            peaks.setdefault(" ".join(words), []).append(peak(folder, *words))
        found = cortext("search", "--exact", "many words", "--json", cwd=folder)
        assert found.code == 0 and ID in found.out, found
    grown = {words: many - few for words, (few, many) in peaks.items()}
    assert max(grown.values()) < 40, (grown, peaks)
    whole = cortext("show", ID, "--json", cwd=tmp_path / "60").json["messages"][LONG_LINE]["content"]
    assert whole == "many words, " * (MEGABYTE // 12) * 60  # what is shown and exported is never truncated


def test_a_search_does_not_load_a_line_of_1_gb(home: Path, tmp_path: Path) -> None:
    """Such a line is damage; what follows it is found and read without it."""
    folder = tmp_path / "work"
    write_log(str(workspace(folder)), hole=1 << 30)
    assert peak(folder, "search", "--exact", "dawn") < 100
    assert peak(folder, "search", "--exact", "message 17") < 100
    assert ID in cortext("search", "--exact", "message 17", cwd=folder).out
