"""One test of a whole table: every row is checked, and each that fails is named, with its traceback.

`every_row` is `pytest.mark.parametrize` as one test, for tests whose rows need no fixture of their own; `table` is for
those that prepare something for each row.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

Test = Callable[..., None]
_LONGEST = 80  # characters of a row's name


@contextmanager
def table() -> Iterator[Callable[[object], AbstractContextManager[None]]]:
    """Return the context of one row; raise at the end what the rows raised, with the names of those rows.

    with table() as row:
        for name, case in CASES.items():
            with row(name):
                assert ...
    """
    errors: list[BaseException] = []
    failed: list[str] = []
    checked = 0

    @contextmanager
    def row(name: object) -> Iterator[None]:
        nonlocal checked
        checked += 1
        try:
            yield
        # A row that skips would leave out those after it, so it fails.
        except (Exception, BaseExceptionGroup, pytest.fail.Exception, pytest.skip.Exception) as error:  # noqa: BLE001
            error.add_note(f"row: {name}")
            errors.append(error)
            failed.append(str(name))

    yield row
    assert checked, "the table has no row"
    if errors:
        raise BaseExceptionGroup(f"{len(errors)} of {checked} rows failed: {', '.join(failed)}", errors)


def every_row(
    columns: str | tuple[str, ...], rows: Iterable[Any], ids: Iterable[object] | None = None
) -> Callable[[Test], Test]:
    """Call the test with each of these rows, as `parametrize` would, in one test; each has a `tmp_path` of its own."""
    names = (columns,) if isinstance(columns, str) else columns
    cells = [(row,) if isinstance(columns, str) else tuple(row) for row in rows]
    titles = [", ".join(repr(cell)[:_LONGEST] for cell in row) for row in cells] if ids is None else list(ids)

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def check(*instance: object, **fixtures: Any) -> None:
            folder: Path | None = fixtures.get("tmp_path")
            with table() as row:
                for number, (title, values) in enumerate(zip(titles, cells, strict=True)):
                    if folder is not None:
                        fixtures["tmp_path"] = folder / str(number)
                        fixtures["tmp_path"].mkdir()
                    with row(title):
                        test(*instance, **fixtures, **dict(zip(names, values, strict=True)))

        signature = inspect.signature(test)
        others = [parameter for name, parameter in signature.parameters.items() if name not in names]
        check.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return check

    return decorate
