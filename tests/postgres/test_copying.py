"""Copies between any two stores: whole, verified, gone on with after any interruption, never over something else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cortext.model.message import Message, Part
from cortext.model.session import AgentConfig, Change, Origin, Session
from cortext.services.library.copying import copy_store
from cortext.store.base import Store
from cortext.store.files.chat import ChatStore
from cortext.store.files.spawn import SpawnStore
from cortext.store.files.workspace import WorkspaceStore
from tests.postgres.copies import interrupted
from tests.postgres.said import plains, talk
from tests.support import postgres

STORES: dict[str, Callable[[Path], Store]] = {
    "workspace": lambda path: WorkspaceStore(str(path)),
    "spawn": lambda path: SpawnStore(str(path)),
    "chat": lambda path: ChatStore(str(path)),
    "postgres": lambda _: postgres.new_store(),
}


@pytest.mark.req("STORE-02", "STORE-14")
@pytest.mark.usefixtures("no_flush")
@pytest.mark.parametrize("target", STORES)
@pytest.mark.parametrize("source", STORES)
def test_every_store_can_be_copied_into_every_other(source: str, target: str, tmp_path: Path) -> None:
    begin, end = STORES[source](tmp_path / "begin"), STORES[target](tmp_path / "end")
    begin.create(
        Session(
            id="talk", title="\x00 \ud800", agent="qa", agent_config=AgentConfig(command="/plan", tools=["a"]),
            origin=Origin(tool="codex", session_id="x"), extra={"more": [1, None]}, created_at="2025-01-01T00:00:00Z",
        )
    )  # fmt: skip
    begin.append("talk", *talk(3), Message(role="assistant", content="\x00 \udfff", parts=[Part(type="x", data=1)]))
    begin.update("talk", Change(status="completed", summary="short", summary_covers=2, summary_by="m"))
    begin.create(Session(id="empty"))
    for copied in (4, 0):
        report = copy_store(begin, end)
        assert (report.sessions, report.copied, report.there, report.failed) == (2, copied, 4 - copied, {})
        assert plains(end.read("talk")) == plains(begin.read("talk"))
    before, after = begin.get("talk"), end.get("talk")
    names = ("title", "status", "summary", "summary_covers", "summary_by", "agent", "agent_config", "origin", "extra",
             "created_at", "last_active", "message_count", "token_count")  # fmt: skip
    assert {name: getattr(after, name) for name in names} == {name: getattr(before, name) for name in names}


@pytest.mark.req("STORE-03", "STORE-14")
def test_a_copy_that_is_killed_again_and_again_ends_identical(tmp_path: Path) -> None:
    interrupted(postgres.shared(), tmp_path, sessions=5, each=1000, times=5, batch=50)


@pytest.mark.req("STORE-14")
def test_what_is_there_and_says_something_else_is_never_touched(tmp_path: Path) -> None:
    begin, end = ChatStore(str(tmp_path)), postgres.new_store()
    for number, name in enumerate(("longer", "other", "fine")):
        begin.create(Session(id=name))
        begin.append(name, *talk(2, number))
    end.create(Session(id="other"))
    end.append("other", *talk(1, 7))
    copy = copy_store(begin, end)
    assert list(copy.failed) == ["other"] and copy.sessions == 2
    end.append("longer", *talk(1, 9))  # the copy was used, and went on
    assert sorted(copy_store(begin, end).failed) == ["longer", "other"]
    assert [message.content for message in end.read("other")] == [talk(1, 7)[0].content]
    begin.append("fine", *talk(1, 5))
    report = copy_store(begin, end)
    assert (report.copied, report.sessions) == (1, 1)
    end.close()


def test_two_messages_with_one_id_are_both_copied(tmp_path: Path) -> None:
    begin, end = ChatStore(str(tmp_path)), postgres.new_store()
    begin.create(Session(id="talk"))
    for words, name in (("one", "same"), ("two", "other"), ("three", "same")):
        begin.append("talk", Message(role="user", content=words, id=name))
    for _ in range(2):
        assert copy_store(begin, end).failed == {}
        assert [(m.id, m.content) for m in end.read("talk")] == [("same", "one"), ("other", "two"), ("same~2", "three")]
    end.close()


def test_what_is_archived_stays_archived(tmp_path: Path) -> None:
    begin: Any = ChatStore(str(tmp_path))
    end = postgres.new_store()
    begin.create(Session(id="talk"))
    begin.append("talk", *talk(6))
    begin.compact("talk", 4)
    assert copy_store(begin, end).failed == {}
    assert [message.seq for message in end.working("talk")] == [4, 5]
    assert len(list(end.read("talk"))) == 6
    end.close()


def test_a_damaged_session_is_told_and_the_others_are_copied(tmp_path: Path) -> None:
    begin, end = ChatStore(str(tmp_path)), postgres.new_store()
    for name in ("bad", "good"):
        begin.create(Session(id=name))
        begin.append(name, *talk(2))
    with open(tmp_path / "bad" / "current.jsonl", "ab") as file:
        file.write(b"no json\n")
    report = copy_store(begin, end)
    assert report.sessions == 1 and "repair bad" in report.failed["bad"]
    end.close()
