"""What was done when: messages by day and model, and files, read from the logs once."""

from __future__ import annotations

from pathlib import Path

import pytest

from cortext.model.message import TOOL_CALL, TOOL_RESULT, Message, Part
from cortext.model.session import Session
from cortext.services.library.activity import activity_in, work
from cortext.services.library.listing import Listing, Row
from cortext.store.files.workspace import WorkspaceStore
from cortext.wiring.stores import Stores

pytestmark = pytest.mark.req("PAGE-01")


def _message(day: str, role: str = "user", model: str = "", *parts: Part) -> Message:
    stamp = f"{day}T10:00:00.000Z" if day else ""
    return Message(role=role, content="" if parts else "words", timestamp=stamp, model=model, parts=[*parts] or None)


def _call(number: int, name: str, path: str) -> Part:
    return Part(TOOL_CALL, id=f"c{number}", name=name, input={"file_path": path})


def _result(number: int, *, failed: bool = False) -> Part:
    return Part(TOOL_RESULT, call_id=f"c{number}", output="done", is_error=failed)


def test_files_are_counted_with_what_became_of_each_call() -> None:
    log = [
        _message("2026-03-01", "assistant", "m1", _call(1, "Read", "a.py"), _call(2, "Edit", "a.py")),
        _message("2026-03-02", "tool", "", _result(2), _result(1)),
        _message("2026-03-03", "assistant", "m1", _call(3, "Edit", "a.py"), _call(4, "Write", "/x/b.py")),
        _message("2026-03-04", "tool", "", _result(3, failed=True)),
        _message("2026-03-05", "assistant", "m2", Part(TOOL_CALL, name="Read", input={"path": "c.py"})),
    ]
    found = activity_in(log)
    files = {file.path: (file.changed, file.read, file.last) for file in found.files}
    assert files == {"a.py": (1, 2, "2026-03-03"), "/x/b.py": (1, 0, "2026-03-03"), "c.py": (0, 1, "2026-03-05")}
    assert sorted((said.day, said.model, said.messages) for said in found.said) == [
        ("2026-03-01", "m1", 1), ("2026-03-02", "", 1), ("2026-03-03", "m1", 1), ("2026-03-04", "", 1),
        ("2026-03-05", "m2", 1),
    ]  # fmt: skip


class Counting:
    """Counts the sessions that are read."""

    def __init__(self, listing: Listing, monkeypatch: pytest.MonkeyPatch) -> None:
        self.read: list[str] = []
        whole = listing.messages

        def counted(row: Row) -> object:
            self.read.append(row.id)
            return whole(row)

        monkeypatch.setattr(listing, "messages", counted)


def test_a_resumed_conversation_counts_on_each_of_its_days(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "knots" / ".workspace").mkdir(parents=True)
    store = WorkspaceStore(str(tmp_path / "knots"))
    for name in ("one", "two"):
        store.create(Session(id=name, title=name))
    store.append("one", *(_message("2026-03-01") for _ in range(3)), _message("2026-03-01", "assistant", "m1"))
    store.append(
        "one", _message("2026-05-01", "assistant", "m1", _call(1, "Edit", "src/a.py"), _call(2, "Read", "./src/a.py"))
    )
    store.append("two", _message("2026-05-01", "assistant", "m2", _call(1, "Edit", str(tmp_path / "knots/src/a.py"))))
    listing = Stores(str(tmp_path / "knots")).listing()
    listing.refresh()
    counting = Counting(listing, monkeypatch)
    seen: list[tuple[int, int]] = []
    found = work(listing, lambda done, total: seen.append((done, total)))
    days = {day: (tally.sessions, tally.messages) for day, tally in found.days.items()}
    assert days == {"2026-03-01": (1, 4), "2026-05-01": (2, 2)} and seen == [(1, 2), (2, 2)]
    assert {name: (tally.sessions, tally.messages) for name, tally in found.models.items()} == {
        "m1": (1, 2), "m2": (1, 1)
    }  # fmt: skip
    (file,) = found.files
    assert (file.path, file.changed, file.read, file.sessions) == (str(tmp_path / "knots/src/a.py"), 2, 1, 2)
    assert sorted(counting.read) == ["one", "two"]

    store.append("two", _message("2026-05-02"))
    store.settle("two")
    store.delete("one")
    listing.refresh()
    again = work(listing)
    assert {day: tally.messages for day, tally in again.days.items()} == {"2026-05-01": 1, "2026-05-02": 1}
    assert counting.read[2:] == ["two"]


def test_a_read_only_catalogue_is_no_obstacle(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "knots" / ".workspace").mkdir(parents=True)
    store = WorkspaceStore(str(tmp_path / "knots"))
    store.create(Session(id="one", title="one"))
    store.append("one", _message("2026-03-01"))
    listing = Stores(str(tmp_path / "knots")).listing()
    listing.refresh()
    listing.index._database.execute("PRAGMA query_only = 1")
    assert work(listing).days["2026-03-01"].messages == 1
