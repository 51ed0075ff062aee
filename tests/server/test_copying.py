"""Copies between any two stores: complete, verified, resumable, and never over a different session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cortext.model.message import Message, Part
from cortext.model.order import order_of
from cortext.model.session import AgentConfig, Change, Origin, Session
from cortext.server.copying import copy_store
from cortext.services.library.stores import NamedStore
from cortext.services.workspace import order
from cortext.store.base import Store
from cortext.store.files.chat import ChatStore
from cortext.store.files.spawn import SpawnStore
from cortext.store.files.workspace import WorkspaceStore
from tests.server.copies import copy_with_kills
from tests.server.messages import as_dicts, turns
from tests.support import postgres

STORES: dict[str, Callable[[Path], Store]] = {
    "workspace": lambda path: WorkspaceStore(str(path)),
    "spawn": lambda path: SpawnStore(str(path)),
    "chat": lambda path: ChatStore(str(path)),
    "postgres": lambda _: postgres.new_store(),
}


@pytest.mark.req("STORE-02", "STORE-14")
@pytest.mark.usefixtures("no_flush")
@pytest.mark.parametrize("target_kind", STORES)
@pytest.mark.parametrize("source_kind", STORES)
def test_every_store_can_be_copied_into_every_other(source_kind: str, target_kind: str, tmp_path: Path) -> None:
    source, target = STORES[source_kind](tmp_path / "source"), STORES[target_kind](tmp_path / "target")
    source.create(
        Session(
            id="talk", title="\x00 \ud800", agent="qa", agent_config=AgentConfig(command="/plan", tools=["a"]),
            origin=Origin(tool="codex", session_id="x"), extra={"more": [1, None]}, created_at="2025-01-01T00:00:00Z",
        )
    )  # fmt: skip
    source.append("talk", *turns(3), Message(role="assistant", content="\x00 \udfff", parts=[Part(type="x", data=1)]))
    source.update("talk", Change(status="completed", summary="short", summary_covers=2, summary_by="m"))
    source.create(Session(id="empty"))
    for copied in (4, 0):
        report = copy_store(source, target)
        assert (report.sessions, report.copied, report.there, report.failed) == (2, copied, 4 - copied, {})
        assert as_dicts(target.read("talk")) == as_dicts(source.read("talk"))
    before, after = source.get("talk"), target.get("talk")
    names = ("title", "status", "summary", "summary_covers", "summary_by", "agent", "agent_config", "origin", "extra",
             "created_at", "last_active", "message_count", "token_count")  # fmt: skip
    assert {name: getattr(after, name) for name in names} == {name: getattr(before, name) for name in names}


@pytest.mark.req("ORDER-01")
@pytest.mark.parametrize("target_kind", ["workspace", "postgres"])
def test_tags_and_stars_of_both_sides_survive_a_copy(target_kind: str, tmp_path: Path) -> None:
    source, target = STORES["workspace"](tmp_path / "source"), STORES[target_kind](tmp_path / "target")
    source.create(Session(id="talk"))
    source.append("talk", *turns(1))
    ours, theirs = NamedStore("a", "home", "/a", source), NamedStore("b", "home", "/b", target)
    order.set_tags(ours, source.peek("talk"), ["old", "both"])
    copy_store(source, target)
    order.set_tags(theirs, target.peek("talk"), ["old"], on=False)
    order.set_star(theirs, target.peek("talk"))
    order.set_tags(ours, source.peek("talk"), ["new"])
    order.add_note(ours, source.peek("talk"), "asked legal")
    copy_store(source, target)
    found = order_of(target.peek("talk").extra)
    assert (found.tags, found.starred, [note.text for note in found.notes]) == (("both", "new"), True, ["asked legal"])


@pytest.mark.req("STORE-03", "STORE-14")
def test_a_copy_that_is_killed_repeatedly_ends_identical(tmp_path: Path) -> None:
    copy_with_kills(postgres.shared(), tmp_path, sessions=5, each=1000, times=5, batch=50)


@pytest.mark.req("STORE-14")
def test_a_copy_never_touches_a_session_that_differs(tmp_path: Path) -> None:
    source, target = ChatStore(str(tmp_path)), postgres.new_store()
    for number, name in enumerate(("longer", "other", "fine")):
        source.create(Session(id=name))
        source.append(name, *turns(2, number))
    target.create(Session(id="other"))
    target.append("other", *turns(1, 7))
    copy = copy_store(source, target)
    assert list(copy.failed) == ["other"] and copy.sessions == 2
    target.append("longer", *turns(1, 9))  # the copy was continued
    assert sorted(copy_store(source, target).failed) == ["longer", "other"]
    assert [message.content for message in target.read("other")] == [turns(1, 7)[0].content]
    source.append("fine", *turns(1, 5))
    report = copy_store(source, target)
    assert (report.copied, report.sessions) == (1, 1)
    target.close()


def test_two_messages_with_one_id_are_both_copied(tmp_path: Path) -> None:
    source, target = ChatStore(str(tmp_path)), postgres.new_store()
    source.create(Session(id="talk"))
    for text, name in (("one", "same"), ("two", "other"), ("three", "same")):
        source.append("talk", Message(role="user", content=text, id=name))
    for _ in range(2):
        assert copy_store(source, target).failed == {}
        assert [(m.id, m.content) for m in target.read("talk")] == [
            ("same", "one"),
            ("other", "two"),
            ("same~2", "three"),
        ]
    target.close()


def test_archived_messages_stay_archived_in_a_copy(tmp_path: Path) -> None:
    source: Any = ChatStore(str(tmp_path))
    target = postgres.new_store()
    source.create(Session(id="talk"))
    source.append("talk", *turns(6))
    source.compact("talk", 4)
    assert copy_store(source, target).failed == {}
    assert [message.seq for message in target.working("talk")] == [4, 5]
    assert len(list(target.read("talk"))) == 6
    target.close()


def test_a_damaged_session_is_reported_and_the_others_are_copied(tmp_path: Path) -> None:
    source, target = ChatStore(str(tmp_path)), postgres.new_store()
    for name in ("bad", "good"):
        source.create(Session(id=name))
        source.append(name, *turns(2))
    with open(tmp_path / "bad" / "current.jsonl", "ab") as file:
        file.write(b"no json\n")
    report = copy_store(source, target)
    assert report.sessions == 1 and "repair bad" in report.failed["bad"]
    target.close()
