"""A table of cases in one test names every row that fails; the suite leaves out what an adapter cannot do."""

from __future__ import annotations

from pathlib import Path

import pytest

from cortext.testing import LineSamples, LineToolConformance
from cortext.testing.table import every_row, table
from cortext.tools.cursor.adapter import Cursor


def test_every_failing_row_is_named_with_its_error() -> None:
    checked = []
    with pytest.raises(BaseExceptionGroup) as caught, table() as row:
        for number in range(4):
            with row(f"row {number}"):
                checked.append(number)
                if number == 1:
                    pytest.fail("no exception of Python")
                assert number != 3, "three"
    assert checked == [0, 1, 2, 3]
    assert caught.value.message == "2 of 4 rows failed: row 1, row 3"
    assert [error.__notes__ for error in caught.value.exceptions] == [["row: row 1"], ["row: row 3"]]


def test_a_row_that_skips_fails_and_hides_no_other() -> None:
    checked = []
    with pytest.raises(BaseExceptionGroup, match="1 of 2 rows failed: first"), table() as row:
        for name in ("first", "second"):
            with row(name):
                checked.append(name)
                if name == "first":
                    pytest.skip("it would leave out the second")
    assert checked == ["first", "second"]


def test_a_table_without_rows_is_an_error() -> None:
    with pytest.raises(AssertionError, match="no row"), table():
        pass


def test_a_test_of_every_row_gets_the_cells_and_a_folder_for_each(tmp_path: Path) -> None:
    seen = []

    @every_row(("left", "right"), [(1, 1), (2, 3), (4, 5)])
    def check(tmp_path: Path, left: int, right: int) -> None:
        seen.append((tmp_path.name, left, right))
        assert left == right and list(tmp_path.iterdir()) == []

    with pytest.raises(BaseExceptionGroup, match="2 of 3 rows failed: 2, 3, 4, 5"):
        check(tmp_path=tmp_path)
    assert seen == [("0", 1, 1), ("1", 2, 3), ("2", 4, 5)]


class _Samples(LineSamples):
    def tool(self, home: Path) -> Cursor:
        return Cursor(str(home), {})

    def path(self, home: Path) -> Path:
        return home / "x"


def test_the_suite_leaves_out_what_an_adapter_cannot_do() -> None:
    class Reader(LineToolConformance):
        samples = _Samples()

    left_out = {name for name in dir(Reader) if name.startswith("test_") and getattr(Reader, name) is None}
    assert "test_a_conversation_is_read_back_with_its_ids" in left_out, "it cannot be resumed in Cursor"
    assert "test_a_reply_that_grows_in_place_is_kept_whole_and_once" in left_out, "these samples do not grow"
    assert "test_every_message_is_read_with_a_stable_id" not in left_out
    assert LineToolConformance.test_a_conversation_is_read_back_with_its_ids is not None
