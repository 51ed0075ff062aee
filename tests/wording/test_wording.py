"""Help and error messages are what the files beside this test say."""

from __future__ import annotations

import pytest

from tests.wording.texts import HERE, TEXTS, WIDTH


@pytest.mark.req("LIB-03")
@pytest.mark.parametrize("name", TEXTS)
def test_wording_is_as_reviewed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", WIDTH)
    recorded = (HERE / name).read_text(encoding="utf-8")
    assert TEXTS[name]() == recorded, "review the change, then record it: python -m tests.wording.texts"
