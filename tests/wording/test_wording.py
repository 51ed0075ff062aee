"""Help and error messages are what the files beside this test say."""

from __future__ import annotations

import re

import pytest

from tests.wording.texts import HERE, TEXTS, WIDTH


@pytest.mark.req("LIB-03")
@pytest.mark.parametrize("name", TEXTS)
def test_wording_is_as_reviewed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", WIDTH)
    recorded = (HERE / name).read_text(encoding="utf-8")
    changed = "review the change, then record it: python -m tests.wording.texts"
    assert _in_any_python(TEXTS[name]()) == _in_any_python(recorded), changed


# In `services/resume/handover.py`.
SPEAKS_OF_US = ("DamagedData: {…} accepted {…} of {…} tool calls",)


@pytest.mark.req("LIB-03")
@pytest.mark.parametrize("name", TEXTS)
def test_a_text_for_users_does_not_speak_of_us(name: str) -> None:
    lines = (HERE / name).read_text(encoding="utf-8").splitlines()
    ours = [line for line in lines if re.search(r"\b([Ww]e|us|[Oo]urs?)\b", line)]
    assert [line for line in ours if not line.startswith(SPEAKS_OF_US)] == [], "say `cortext`, or name the store"


def _in_any_python(text: str) -> str:
    """Return a text without what depends on the version of Python: line breaks, and a value after every name of an
    option (`--since SINCE, --after SINCE`) or only after the last one.
    """
    return re.sub(r"(-[\w-]+) ([A-Z_]+), (--[\w-]+ \2\b)", r"\1, \3", re.sub(r"\s+", " ", text))
