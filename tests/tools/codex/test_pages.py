"""Threads of several pages, forks, archived threads, and copies that are put back."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.tools.codex.corpus import THREAD, Rollout, everyday, read

from cortext.model.threads import thread
from cortext.tools.codex import pages
from cortext.tools.codex.adapter import Codex

SECOND = "01a1dd0e-7902-7411-b214-e3196744529a"
THIRD = "01a1dd0e-7fff-7411-b214-e3196744529a"
FORK = "01a1dd11-f016-7d60-9a1b-223529bf9726"


def history_base(rollout: Rollout, lines: int) -> dict[str, Any]:
    """Return the field with which a page continues the first lines of another one."""
    size = sum(len(line) + 1 for line in rollout.lines[:lines])
    return {"thread_id": rollout.page, "end_ordinal_exclusive": lines, "end_byte_offset": size}


def save_rewound_thread(home: Path) -> tuple[Rollout, Rollout, Rollout]:
    """Save a thread whose user went back twice after `one`: first to `two-b` instead of `two`, then to `two-c`."""
    first = Rollout()
    first.turn("one", "one heard")
    kept = len(first.lines)
    first.turn("two", "two heard")
    second = Rollout(page=SECOND, first=kept, history_base=history_base(first, kept))
    empty = len(second.lines)
    second.turn("two-b", "two-b heard")
    third = Rollout(page=THIRD, first=kept + empty, history_base=history_base(second, empty))
    third.turn("two-c", "two-c heard")
    first.save(home, "2026-11-15T02-34-30")
    second.save(home, "2026-11-16T02-34-35")
    third.save(home, "2026-12-01T02-34-40")
    return first, second, third


def paths(home: Path) -> list[Path]:
    return sorted(home.rglob("rollout-*.jsonl"))


@pytest.mark.req("TOOL-03")
def test_a_thread_of_several_pages_is_one_transcript(tmp_path: Path) -> None:
    save_rewound_thread(tmp_path)
    tool = Codex(home=str(tmp_path))

    (found,) = tool.transcripts()

    assert (found.key, found.project, found.tool) == (THREAD, "/work/boats", "codex")
    assert found.size == sum(path.stat().st_size for path in paths(tmp_path))
    assert found.changed == max(path.stat().st_mtime_ns for path in paths(tmp_path))
    assert os.path.basename(found.path).endswith(f"_{THIRD}.jsonl")
    # A hook may name any page of the thread.
    assert [tool.transcript_at(str(path)) for path in paths(tmp_path)] == [found] * 3


@pytest.mark.req("TOOL-03", "SESS-001d")
def test_going_back_starts_a_branch(tmp_path: Path) -> None:
    save_rewound_thread(tmp_path)

    messages, reading = read(paths(tmp_path)[0])

    texts = [message.content for message in messages]
    assert texts == ["one", "one heard", "two", "two heard", "two-b", "two-b heard", "two-c", "two-c heard"]
    assert [message.parent for message in messages] == ["", "", "", "", messages[1].id, "", messages[1].id, ""]
    assert [message.content for message in thread(messages)] == ["one", "one heard", "two-c", "two-c heard"]
    assert reading.counts.damaged == {}


@pytest.mark.req("TOOL-03")
def test_with_a_cursor_only_a_later_branch_is_read(tmp_path: Path) -> None:
    first, second, third = save_rewound_thread(tmp_path)
    for path in paths(tmp_path)[1:]:
        path.unlink()
    before, reading = read(paths(tmp_path)[0])
    second.save(tmp_path, "2026-11-16T02-34-35")

    after, reading = read(paths(tmp_path)[0], json.loads(json.dumps(reading.cursor)))
    assert [(message.content, message.parent) for message in after] == [
        ("two-b", before[1].id),
        ("two-b heard", ""),
    ]
    third.save(tmp_path, "2026-12-01T02-34-40")
    last, reading = read(paths(tmp_path)[0], json.loads(json.dumps(reading.cursor)))
    assert [message.content for message in last] == ["two-c", "two-c heard"]
    assert [*before, *after, *last] == read(paths(tmp_path)[0])[0]
    assert first.page in reading.cursor["pages"]


@pytest.mark.req("TOOL-03")
def test_a_fork_begins_with_the_messages_it_inherits(tmp_path: Path) -> None:
    _, _, third = save_rewound_thread(tmp_path)
    fork = Rollout(FORK, first=99, forked_from_id=THREAD, history_base=history_base(third, len(third.lines)))
    fork.turn("in the fork", "yes")
    path = fork.save(tmp_path, "2026-12-02T02-34-40")

    messages, reading = read(path)

    texts = ["one", "one heard", "two-c", "two-c heard", "in the fork", "yes"]
    assert [message.content for message in messages] == texts
    assert not any(message.parent for message in messages)
    assert read(path, reading.cursor)[0] == []
    assert {transcript.key for transcript in Codex(home=str(tmp_path)).transcripts()} == {THREAD, FORK}


@pytest.mark.req("TOOL-04")
def test_missing_and_circular_pages_are_counted(tmp_path: Path) -> None:
    incomplete = Rollout(FORK, history_base={"thread_id": THIRD, "end_byte_offset": 10})
    incomplete.turn("still here", "yes")
    messages, reading = read(incomplete.save(tmp_path / "a"))
    assert [message.content for message in messages] == ["still here", "yes"]
    assert reading.counts.damaged == {"missing page": 1}

    circular = Rollout(FORK, history_base={"thread_id": FORK, "end_byte_offset": 10})
    circular.turn("still here", "yes")
    assert len(read(circular.save(tmp_path / "b"))[0]) == 2


def test_a_rollback_in_older_files_starts_a_branch(tmp_path: Path) -> None:
    rollout = Rollout()
    for prompt in ("one", "two", "three"):
        rollout.turn(prompt, f"{prompt} heard")
    rollout.event("thread_rolled_back", num_turns=2)
    path = rollout.save(tmp_path)
    _, reading = read(path)
    rollout.turn("two-b", "two-b heard")
    rollout.save(tmp_path)

    messages, _ = read(path)
    assert [message.content for message in thread(messages)] == ["one", "one heard", "two-b", "two-b heard"]
    rollout.event("thread_rolled_back", num_turns=1)
    rollout.turn("two-c", "two-c heard")
    rollout.save(tmp_path)
    after, _ = read(path, reading.cursor)
    branches = [(message.content, message.parent) for message in after if message.parent]
    assert branches == [("two-b", messages[1].id), ("two-c", messages[1].id)]


@pytest.mark.req("TOOL-01")
def test_threads_are_found_by_project_and_other_files_ignored(tmp_path: Path) -> None:
    everyday().save(tmp_path)
    Rollout(FORK, cwd="/work/other").save(tmp_path, folder="archived_sessions")
    sessions = tmp_path / ".codex" / "sessions"
    (sessions / "notes.txt").write_text("x", encoding="utf-8")
    (sessions / "rollout-2026-11-15T02-34-30-nonsense.jsonl").write_text("x", encoding="utf-8")
    (sessions / f"rollout-2026-11-15T02-34-30-{SECOND}.jsonl").symlink_to("/etc/hostname")
    tool = Codex(home=str(tmp_path))

    # A link is listed but not followed; reading it reports that.
    assert {item.key: item.project for item in tool.transcripts()} == {
        THREAD: "/work/boats",
        FORK: "/work/other",
        SECOND: "",
    }
    assert [item.key for item in tool.transcripts("/work/other")] == [FORK]
    assert list(tool.transcripts("/nowhere")) == []
    assert list(Codex(home=str(tmp_path / "nothing")).transcripts()) == []
    assert tool.transcript_at(str(sessions / "notes.txt")) is None
    assert tool.transcript_at(str(sessions / "missing.jsonl")) is None
    assert tool.transcript_at(str(sessions)) is None


def test_the_store_is_found_by_the_environment(tmp_path: Path) -> None:
    everyday().save(tmp_path)

    environ = {"HOME": "/nowhere", "CODEX_HOME": str(tmp_path / ".codex"), "PATH": ""}
    assert [item.key for item in Codex(environ=environ).transcripts()] == [THREAD]
    assert [item.key for item in Codex(environ={"HOME": str(tmp_path)}).transcripts()] == [THREAD]


@pytest.mark.req("TRUE-05")
def test_a_compressed_page_is_named_if_there_is_no_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = everyday().save(tmp_path)
    path.rename(f"{path}.zst")
    monkeypatch.setattr(pages, "library", lambda: None)
    tool = Codex(home=str(tmp_path))

    (found,) = tool.transcripts()
    reading = tool.read(found)

    assert list(reading) == []
    assert reading.counts.unknown == {pages.unread(): 1} and "pip install" in pages.unread()
    assert list(tool.read(found, reading.cursor)) == []


def squeeze(path: Path) -> Path:
    """Compress a page as Codex does: the time is kept, and the plain file is gone."""
    zstd = pages.library() or pytest.skip("no library for zstd is installed: the extra `zst`")
    packed, status = Path(f"{path}.zst"), path.stat()
    packed.write_bytes(zstd.compress(path.read_bytes()))
    os.utime(packed, ns=(status.st_atime_ns, status.st_mtime_ns))
    path.unlink()
    return packed


@pytest.mark.req("TRUE-05")
def test_a_compressed_page_is_read_and_goes_on_after_it_is_unpacked(tmp_path: Path) -> None:
    path = everyday().save(tmp_path)
    tool = Codex(home=str(tmp_path))
    (before,) = tool.transcripts()
    first = tool.read(before)
    complete = [(message.id, message.role, message.text) for message in first]
    plain = path.read_bytes()
    packed = squeeze(path)

    (found,) = tool.transcripts()
    again = [(message.id, message.role, message.text) for message in tool.read(found)]
    tool.copy(found, str(tmp_path / "native"))

    assert (found.key, found.project, found.path) == (before.key, before.project, str(packed))
    assert again == complete
    assert list(tool.read(found, first.cursor)) == [], "nothing was said since"
    assert (tmp_path / "native").read_bytes() == plain
    path.write_bytes(plain)  # Codex unpacks it before it appends: for a moment there are both
    assert [item.path for item in tool.transcripts()] == [str(path)]


@pytest.mark.req("TRUE-05")
def test_a_compressed_page_that_was_cut_is_counted_as_damaged(tmp_path: Path) -> None:
    squeeze(everyday().save(tmp_path))
    (found,) = Codex(home=str(tmp_path)).transcripts()
    damaged = Path(found.path)
    damaged.write_bytes(damaged.read_bytes()[:40])

    reading = Codex(home=str(tmp_path)).read(found)

    assert list(reading) == [] and reading.counts.damaged == {"compressed page cannot be unpacked": 1}


def test_the_title_comes_from_the_index_of_codex(tmp_path: Path) -> None:
    path = everyday().save(tmp_path)
    index = tmp_path / ".codex" / "session_index.jsonl"
    index.write_text(
        f'{{"id":"{THREAD}","thread_name":"old"}}\nnonsense\n{{"id":"{THREAD}","thread_name":"Boats"}}\n',
        encoding="utf-8",
    )

    assert read(path)[1].about.title == "Boats"


# ── copies ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("TOOL-03")
def test_copies_of_several_pages_and_a_fork_are_put_back(tmp_path: Path) -> None:
    _, _, third = save_rewound_thread(tmp_path)
    fork = Rollout(FORK, first=99, history_base=history_base(third, len(third.lines)))
    fork.turn("in the fork", "yes")
    fork.save(tmp_path, "2026-12-02T02-34-40")
    before = {path.relative_to(tmp_path): path.read_bytes() for path in paths(tmp_path)}
    tool = Codex(home=str(tmp_path))
    read_before = {}
    for found in list(tool.transcripts()):
        read_before[found.key] = list(tool.read(found))
        tool.copy(found, str(tmp_path / "kept" / found.key))
    shutil.rmtree(tmp_path / ".codex")

    for key, messages in read_before.items():
        kept = tool.transcript_at(str(tmp_path / "kept" / key))
        assert kept is not None and list(tool.read(kept)) == messages
        assert tool.put_back(str(tmp_path / "kept" / key), project="/work/boats") == key

    shutil.rmtree(tmp_path / "kept")
    assert {path.relative_to(tmp_path): path.read_bytes() for path in paths(tmp_path)} == before
