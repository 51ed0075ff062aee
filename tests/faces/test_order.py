"""Tags, stars, notes and the archive from start to end, and how a word that is no command is treated."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import pytest

from cortext.store.files.workspace import WorkspaceStore
from tests.faces.pond import SECRET, Pond, make_pond
from tests.support.cli import SCRIPTS, Ran, cortext
from tests.support.screen import Screen


@pytest.fixture
def pond(tmp_path: Path) -> Pond:
    return make_pond(tmp_path)


def _run(pond: Pond, *words: str, code: int = 0) -> Ran:
    done = cortext(*words, cwd=pond.folder, env=pond.env)
    assert done.code == code, (words, done.out, done.err)
    return done


def _ids(pond: Pond, *filters: str) -> set[str]:
    return {row["id"] for row in _run(pond, "list", "--json", *filters).json}


@pytest.mark.req("ORDER-01")
def test_a_conversation_is_tagged_starred_noted_archived_and_back(pond: Pond) -> None:
    everything = _ids(pond)
    one, other, *_ = sorted(everything)
    done = _run(pond, "tag", one, "Billing", "#later")
    assert "billing, later" in done.out and f"Undo: cortext tag {one} billing later --remove" in done.out
    assert _ids(pond, "--tag", "billing") == _ids(pond, "--tag", "billing", "--tag", "later") == {one}
    assert "Nothing to change." in _run(pond, "tag", one, "billing").out
    _run(pond, "tag", one, "later", "--remove")
    assert _ids(pond, "--tag", "later") == set() and _run(pond, "tag", one).out == "billing\n"
    assert _run(pond, "tag", "--json").json == [{"tag": "billing", "sessions": 1}]

    _run(pond, "star", one, other)
    assert _ids(pond, "--starred") == {one, other}
    _run(pond, "star", other, "--remove")
    assert _ids(pond, "--starred") == {one}

    _run(pond, "note", one, "waits", "for", "legal; ghp_Ab3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0dF3hJ6")
    _run(pond, "note", one, "legal said yes")
    notes = _run(pond, "note", one).out
    assert "1. waits for legal; [masked" in notes and "2. legal said yes" in notes and "ghp_" not in notes
    shown = _run(pond, "show", one, "--tail", "1").out
    assert "#billing" in shown and "★" in shown and "note 2: legal said yes" in shown
    _run(pond, "note", one, "--remove", "1")
    assert [note["text"] for note in _run(pond, "note", one, "--json").json] == ["legal said yes"]
    assert "has no note 2" in _run(pond, "note", one, "--remove", "2", code=1).err

    assert f"Undo: cortext archive {one} --remove" in _run(pond, "archive", one).out
    assert _ids(pond) == everything - {one} and _ids(pond, "--archived") == {one}
    assert one not in _run(pond, "resume", "--list", "--json").out and _run(pond, "show", one, "--tail", "1").out
    _run(pond, "archive", one, "--remove")
    assert _ids(pond) == everything


@pytest.mark.req("ORDER-01")
def test_what_is_archived_is_found_and_survives_another_import_and_a_new_index(pond: Pond) -> None:
    found = _run(pond, "search", "heron", "--json").json
    session = found[0]["session"]["id"]
    for words in (("tag", session, "birds"), ("archive", session), ("star", session)):
        _run(pond, *words)
    for filters in ((), ("--tag", "birds"), ("--is", "archived"), ("--is", "archived,starred", "--tag", "birds")):
        hits = _run(pond, "search", "heron", "--json", *filters).json
        assert session in {hit["session"]["id"] for hit in hits}, filters
    assert session in {
        hit["session"]["id"] for hit in _run(pond, "search", "heron tag:birds is:starred", "--json").json
    }
    for filters in (("--tag", "fish"), ("--is", "unarchived")):
        done = cortext("search", "heron", "--json", *filters, cwd=pond.folder, env=pond.env)
        assert session not in {hit["session"]["id"] for hit in done.json}, filters
    assert "unknown filter is:nice" in _run(pond, "search", "heron", "--is", "nice", code=2).err
    _run(pond, "import")
    for path in Path(pond.env["HOME"]).rglob("catalogue.db*"):
        path.unlink()
    (row,) = [row for row in _run(pond, "list", "--archived", "--json").json if row["id"] == session]
    assert (row["tags"], row["starred"], row["archived"]) == (["birds"], True, True)


@pytest.mark.req("ORDER-01")
def test_many_are_changed_by_filters_after_a_dry_run(pond: Pond) -> None:
    claude = _ids(pond, "--tool", "claude")
    assert len(claude) == 2
    done = _run(pond, "tag", "--tool", "claude", "review", "--dry-run")
    assert "Would tag 2 conversations: review" in done.out and all(name in done.out for name in claude)
    assert _ids(pond, "--tag", "review") == set()
    assert "Tagged 2 conversations: review" in _run(pond, "tag", "--tool", "claude", "review").out
    assert _ids(pond, "--tag", "review") == claude
    changed = _run(pond, "archive", "--tag", "review", "--json").json
    assert {item["id"] for item in changed["changed"]} == claude and not changed["dry_run"]
    assert "2 conversations" in _run(pond, "archive", "--tag", "review", "--remove").out
    assert _ids(pond, "--tag", "review") == claude
    assert "name one by its number or id" in _run(pond, "archive", code=2).err
    assert "both conversations and filters" in _run(pond, "star", "1", "--tool", "claude", code=2).err
    assert "invalid tag" in _run(pond, "tag", "1", "a,b", code=2).err


@pytest.mark.req("ORDER-01")
def test_a_note_is_kept_on_many_after_a_dry_run_and_taken_back(pond: Pond) -> None:
    claude = _ids(pond, "--tool", "claude")
    one = min(claude)

    def notes(name: str) -> list[str]:
        return [note["text"] for note in _run(pond, "note", name, "--json").json]

    _run(pond, "note", one, "waits", "for", "legal")
    done = _run(pond, "note", "--tool", "claude", "waits", "for", "legal", "--dry-run")
    assert f"Would note on {min(claude - {one})}" in done.out and one not in done.out, "one has this note already"
    assert [notes(name) for name in sorted(claude)] == [["waits for legal"], []]
    done = _run(pond, "note", "--tool", "claude", "the", "key", "is", SECRET)
    assert "Noted on 2 conversations: the key is [masked" in done.out and "Undo: cortext note --undo" in done.out
    assert all(SECRET not in text for name in claude for text in notes(name))
    assert sum(len(notes(name)) for name in claude) == 3
    _run(pond, "note", "--undo")
    assert [notes(name) for name in sorted(claude)] == [["waits for legal"], []]
    report = _run(pond, "note", "--tool", "claude", "late", "--json").json
    assert [item["notes"] for item in report["changed"]] == [["late"], ["late"]]
    _run(pond, "note", one, "--remove", "1")
    _run(pond, "note", "--undo")
    assert sorted(notes(one)) == ["late", "waits for legal"], "the last change was the removal of one note"
    assert "Would note on" in _run(pond, "note", one, "again", "--dry-run").out and "again" not in notes(one)
    assert "no conversation was given" in _run(pond, "note", code=2).err
    assert "--remove is for one conversation" in _run(pond, "note", "--tool", "claude", "--remove", "1", code=2).err
    assert "the note is empty" in _run(pond, "note", "--tool", "claude", code=2).err


@pytest.mark.req("ORDER-01")
def test_a_bulk_change_goes_on_after_a_failure_and_is_one_commit(pond: Pond) -> None:
    store, before = WorkspaceStore(str(pond.folder)), len(pond.log)
    env = {**pond.env, "CORTEXT_STORE_LOCK_TIMEOUT": "0.1"}
    with store.open("002-debug-leaking-boat"):
        done = cortext("tag", "--here", "review", cwd=pond.folder, env=env)
    assert done.code == 4 and "Tagged 3 conversations: review" in done.out, done
    assert "Not changed: 002-debug-leaking-boat: " in done.err and "004-learn-knots" not in done.err
    tagged = {"001-plan-herons-at-the-pond", "003-brainstorm-long-walk", "004-learn-knots"}
    assert len(pond.log) == before + 1 and pond.log[0] == "session update: 3 conversations"
    assert _ids(pond, "--tag", "review") == tagged
    with store.open("002-debug-leaking-boat"):
        report = cortext("star", "--here", "--json", cwd=pond.folder, env=env).json
        alone = cortext("star", "002", cwd=pond.folder, env=env)
    assert [item["id"] for item in report["failed"]] == ["002-debug-leaking-boat"] and len(report["changed"]) == 3
    assert alone.code == 4 and "cortext: error:" in alone.err


@pytest.mark.req("ORDER-01")
def test_an_undo_restores_exactly_what_was_before(pond: Pond) -> None:
    one, two, *_ = sorted(_ids(pond, "--here"))

    def tags() -> dict[str, list[str]]:
        return {row["id"]: row["tags"] for row in _run(pond, "list", "--json").json if row["tags"]}

    _run(pond, "tag", one, "old", "kept")
    _run(pond, "archive", two)
    before = tags()
    done = _run(pond, "tag", one, "old", "new")
    assert f"Undo: cortext tag {one} new --remove" in done.out, "only what was changed"
    _run(pond, "tag", one, "new", "--remove")
    assert tags() == before == {one: ["kept", "old"]}

    assert "Undo: cortext tag --undo" in _run(pond, "tag", "--here", "old").out
    assert len(tags()) == 3
    assert "Would remove the tags from 2 conversations: old" in _run(pond, "tag", "--undo", "--dry-run").out
    _run(pond, "tag", "--undo")
    assert tags() == before
    _run(pond, "tag", "--undo")
    assert len(tags()) == 3, "the undo can be taken back too"

    # Where the command chooses by what it removes, the same command would find nothing.
    _run(pond, "tag", "--tag", "old", "old", "--remove")
    assert tags() == {one: ["kept"]}
    _run(pond, "tag", "--undo")
    assert len(tags()) == 3
    assert "takes back the last change" in _run(pond, "archive", one, "--undo", code=2).err
    assert "no change by cortext star is known" in _run(pond, "star", "--undo", code=1).err

    _run(pond, "note", one, "it's late")
    removed = _run(pond, "note", one, "--remove", "1").out
    assert shlex.split(removed.splitlines()[-1])[1:] == ["cortext", "note", one, "it's late"]


@pytest.mark.req("LOOK-01")
def test_words_that_are_no_command_search_and_a_typing_error_is_explained(pond: Pond) -> None:
    found = _run(pond, "heron", "pond")
    assert found.out == _run(pond, "search", "heron", "pond").out and "searching for it" in found.err
    assert _run(pond, "herons", "--json").json
    wrong = _run(pond, "serch", "heron", code=2)
    assert "did you mean search" in wrong.err and "cortext search serch heron" in wrong.err and not wrong.out
    assert "unknown command '--heron'" in _run(pond, "--heron", code=2).err


@pytest.mark.terminal
def test_the_list_shows_what_fits_the_screen(tmp_path: Path) -> None:
    home = tmp_path / "home"
    sessions = home / ".aurora" / "spawn" / "sessions"
    sessions.mkdir(parents=True)
    for number in range(40):
        when = f"2026-11-02T10:{number:02}:00.000Z"
        head = {"type": "metadata", "session_id": f"s{number:03}", "created_at": when, "title": f"Title {number}"}
        turn = {"type": "turn", "role": "user", "content": "hello", "timestamp": when, "id": f"m{number}", "seq": 0}
        (sessions / f"s{number:03}.jsonl").write_text(f"{json.dumps(head)}\n{json.dumps(turn)}\n", encoding="utf-8")
    env = {"HOME": str(home)}
    assert len(cortext("list", cwd=home, env=env).out.splitlines()) == 41, "all of them, without a screen"
    command = [str(SCRIPTS / "cortext"), "list"]
    with Screen(tmp_path, command, {**env, "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}, home, "80x20") as screen:
        shown = screen.wait_for("more: --all shows them")
        assert "Title 39" in shown and "Title 20" not in shown and "… and 24 more" in shown
