"""The quick cases of the record fuzzer; `python -m tests.safety.fuzz` runs many more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.safety import fuzz

CASES = 2_000
_ODD = [name for name, weight in zip(fuzz.NAMES, fuzz.WEIGHTS, strict=True) for _ in range(weight)]


@pytest.fixture(scope="module")
def subjects(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[fuzz.Subject]]:
    made = fuzz.subjects(tmp_path_factory.mktemp("fuzz"))
    yield made
    for subject in made:
        subject.close()


@pytest.mark.req("SAFE-07", "TOOL-04", "STORE-06")
@settings(
    max_examples=CASES,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],  # a case is already minimal: there is nothing to shrink
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    which=st.integers(0, 2**16),
    record=st.integers(0, 2**16),
    place=st.integers(0, 2**16),
    value=st.sampled_from(_ODD),
)
def test_any_changed_value_affects_only_its_own_record(
    subjects: list[fuzz.Subject], which: int, record: int, place: int, value: str
) -> None:
    subjects[which % len(subjects)].try_case(fuzz.Case(record, place, value))


@pytest.mark.req("SAFE-07")
def test_the_fuzzer_notices_a_silently_lost_record(
    subjects: list[fuzz.Subject], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Failures are noticed: a reader that drops a neighbouring record, and one that crashes."""
    claude = subjects[0]
    assert isinstance(claude, fuzz.ToolSubject)
    read = claude.read
    case = fuzz.Case(3, 0, "null")
    claude.try_case(case)
    monkeypatch.setattr(claude, "read", lambda: (read()[0][:2], read()[1]))
    with pytest.raises(fuzz.Failed, match="lost"):
        claude.try_case(case)
    monkeypatch.setattr(claude, "read", lambda: 1 // 0)
    with pytest.raises(fuzz.Failed, match="ZeroDivisionError"):
        claude.try_case(case)


def test_a_case_changes_exactly_what_it_names() -> None:
    record = {"a": {"b": [1, 2]}, "c": "x"}
    assert list(fuzz.places(record)) == [(), ("a",), ("a", "b"), ("a", "b", 0), ("a", "b", 1), ("c",)]
    assert fuzz.changed(record, ("a", "b", 1), "2^64") == b'{"a":{"b":[1,18446744073709551616]},"c":"x"}'
    assert fuzz.changed(record, ("a",), fuzz.GONE) == b'{"c":"x"}'
    assert fuzz.changed(record, (), "half a pair") == b'"cut \\ud83d"'
