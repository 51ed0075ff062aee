"""Verifying a native session, and the marks in its records."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from cortext.errors import DamagedData
from cortext.model.message import Message
from cortext.tools.base import Counts
from cortext.tools.gemini_cli.records import Mark as GeminiMark
from cortext.tools.shared.native import Mark, removed_unless_verified, same_message, verify

ONE = Message(role="user", content="Hello", id="m1")
TWO = Message(role="assistant", content="Hi", id="m2")


@pytest.mark.parametrize(
    "found",
    [
        [ONE],
        [ONE, TWO, TWO],
        [TWO, ONE],
        [ONE, Message(role="assistant", content="Ho", id="m2")],
        [ONE, Message(role="assistant", content="Hi", id="m3")],
        [ONE, Message(role="assistant", content="Hi", id="m2", parent="m0")],
    ],
)
def test_a_session_that_reads_back_differently_is_an_error(found: list[Message]) -> None:
    with pytest.raises(DamagedData, match="the new session for A Tool could not be verified"):
        verify("A Tool", [ONE, TWO], found, Counts(), same_message)


def test_unreadable_records_are_an_error() -> None:
    verify("A Tool", [ONE, TWO], iter([ONE, TWO]), Counts(skipped={"title": 1}), same_message)
    for counts in (Counts(damaged={"not JSON": 1}), Counts(unknown={"dream": 1})):
        with pytest.raises(DamagedData, match="cannot be read"):
            verify("A Tool", [ONE, TWO], [ONE, TWO], counts, same_message)


def test_a_message_without_an_id_may_get_one() -> None:
    without = Message(role="user", content="Hello \ud800")
    assert same_message(without, msgspec.structs.replace(without, id="new", parts=None))


def test_a_session_that_fails_verification_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "session"
    path.write_text("x", encoding="utf-8")
    with removed_unless_verified(str(path)):
        pass
    assert path.exists()
    with pytest.raises(KeyboardInterrupt), removed_unless_verified(str(path)):
        raise KeyboardInterrupt
    assert not path.exists()


def test_marks_of_earlier_versions_are_recognised() -> None:
    assert msgspec.json.decode(b'{"added": "yes"}', type=Mark).added
    assert msgspec.json.decode(b'{"made": true}', type=GeminiMark).added
    assert msgspec.json.encode(GeminiMark(added=True)) == b'{"made":true}'
    kept = msgspec.json.decode(msgspec.json.encode(Mark(id="m1", was=msgspec.to_builtins(ONE))), type=Mark)
    assert kept.original() == ONE and Mark().original() is None
