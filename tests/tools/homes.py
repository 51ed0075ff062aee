"""The homes in which a test with a real program is played."""

from __future__ import annotations

import pytest


def in_any_home(program: str) -> pytest.MarkDecorator:
    """Run a test in a home where a program was used before; among the repetitions, also where it never was."""
    fresh = pytest.param("", id="fresh", marks=pytest.mark.repeats)
    return pytest.mark.parametrize("home", [fresh, pytest.param(program, id="used")], indirect=True)
