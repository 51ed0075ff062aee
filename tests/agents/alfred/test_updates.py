"""The journal of a bot: an update is taken once, and its progress survives a crash."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from cortext.errors import CortextError, SessionBusy
from cortext.store.files import assistant as assistant_files
from cortext.store.files.assistant import FileChats, FileUpdates


def _open(path: Path) -> FileUpdates:
    updates = FileUpdates(str(path))
    updates.hold()
    return updates


def _body(number: int) -> tuple[int, str, dict[str, Any]]:
    return number, f"tg_{number % 3}", {"update_id": number}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "telegram" / "1.jsonl"


def test_an_update_is_taken_once(path: Path) -> None:
    updates = _open(path)
    assert [taken.update for taken in updates.take([_body(1), _body(2), _body(1)])] == [1, 2]
    assert updates.take([_body(2), _body(1)]) == []
    # Telegram may restart its numbers after a week without updates: a lower number is not an old one.
    updates.take([_body(900)])
    assert [taken.update for taken in updates.take([_body(3)])] == [3]
    updates.done(1)
    assert updates.take([_body(1)]) == [], "a finished update is not taken again"
    updates.release()
    reopened = _open(path)
    assert [taken.update for taken in reopened.waiting()] == [2, 900, 3]
    assert reopened.take([_body(number) for number in (1, 2, 3, 900)]) == []


def test_the_progress_of_an_update_survives_a_crash(path: Path) -> None:
    updates = _open(path)
    updates.take([_body(7)])
    updates.note(7, {"session": "sess_x", "seq": 4})
    updates.sent(7, 55)
    updates.sent(7, 56)
    updates.release()
    with path.open("ab") as file:
        file.write(b'{"type": "sent", "upd')  # killed in the middle of a line
    reopened = _open(path)
    (taken,) = reopened.waiting()
    assert (taken.sent, taken.facts) == ([55, 56], {"session": "sess_x", "seq": 4})
    reopened.sent(7, 57)
    reopened.release()
    (taken,) = _open(path).waiting()
    assert taken.sent == [55, 56, 57]


def test_unknown_lines_are_skipped(path: Path) -> None:
    path.parent.mkdir()
    path.write_text(
        'not json\n[]\n{"type": "taken"}\n{"type": "taken", "update": 4, "chat": "../x", "at": "", "body": {"a": 1}}\n'
        '{"type": "sent", "update": 99, "message": 1}\n{"type": "done", "update": 98}\n',
        encoding="utf-8",
    )
    updates = _open(path)
    assert updates.waiting() == []
    assert updates.take([_body(4)]) == []


def test_a_large_journal_is_rewritten_without_finished_updates(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assistant_files, "SHRINK_SIZE", 20_000)
    updates = _open(path)
    updates.take([(1, "tg_1", {"text": "x" * 30_000})])
    updates.take([_body(2)])
    updates.sent(2, 5)
    updates.done(1)
    assert path.stat().st_size > 30_000, "not rewritten while an update waits"
    updates.done(2)
    assert path.stat().st_size < 1_000
    assert updates.take([_body(1), _body(2)]) == []
    updates.take([_body(3)])
    updates.release()
    reopened = _open(path)
    assert [taken.update for taken in reopened.waiting()] == [3]
    assert reopened.take([_body(1), _body(2), _body(3)]) == []


def test_many_threads_take_each_update_once_in_one_process(path: Path) -> None:
    updates = _open(path)
    new: list[int] = []

    def work(first: int) -> None:
        for number in range(first, first + 40):
            new.extend(taken.update for taken in updates.take([_body(number)]))
            if number % 2 and number in {taken.update for taken in updates.waiting()}:
                updates.sent(number, number)

    threads = [threading.Thread(target=work, args=(first,)) for first in (0, 20, 40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(new) == list(range(80))
    with pytest.raises(SessionBusy, match="this bot is served by process"):
        _open(path)
    updates.release()
    assert sorted(taken.update for taken in _open(path).waiting()) == list(range(80))


@pytest.mark.req("CHAT-06")
def test_the_active_session_of_each_chat_is_stored(tmp_path: Path) -> None:
    chats = FileChats(str(tmp_path / "chats"), "cli", str(tmp_path / "sessions" / "current.json"))
    assert chats.active("tg_1") is None
    chats.activate("tg_1", "sess_a")
    chats.activate("cli", "sess_b")
    chats.activate("tg_2", "")
    other = FileChats(str(tmp_path / "chats"), "cli", str(tmp_path / "sessions" / "current.json"))
    assert [other.active(chat) for chat in ("tg_1", "cli", "tg_2", "tg_3")] == ["sess_a", "sess_b", "", None]
    assert (tmp_path / "sessions" / "current.json").exists()
    for chat, session in (("../x", "sess_a"), ("tg_1", "../../etc"), ("tg_1", "A")):
        with pytest.raises(CortextError):
            other.activate(chat, session)
    (tmp_path / "chats" / "tg_1.json").write_text('{"session_id": "../../x"}', encoding="utf-8")
    assert other.active("tg_1") == ""
