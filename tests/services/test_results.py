"""Long tool results are cut to their ends, and no half of a secret is left there."""

from __future__ import annotations

import pytest

from cortext.services.text.for_models import shorten

pytestmark = pytest.mark.req("SAFE-09")
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
LINE = "The heron stands in the reeds and waits.\n"


@pytest.mark.parametrize("lines", [100, 20_000])
@pytest.mark.parametrize("cut", [280, 300 - len(SECRET) + 4])
def test_a_secret_at_the_cut_is_masked_whole(lines: int, cut: int) -> None:
    output = (LINE * 20)[:cut] + f" {SECRET} " + LINE * lines + f" {SECRET} " + LINE * 2
    shown = shorten(output)
    assert len(shown) < 600 and "characters of this result left out" in shown
    assert "ghp_" not in shown and SECRET[-8:] not in shown


def test_a_huge_result_full_of_secrets_is_masked_as_a_whole() -> None:
    key = (
        "-----BEGIN PRIVATE " + "KEY-----\n" + "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n" * 60
    )
    output = (key + "-----END PRIVATE " + "KEY-----\n") * 80
    assert "MIIEvQ" not in shorten(output)
    assert len(output) > 300_000


def test_a_short_result_stays_as_it_is() -> None:
    assert shorten(LINE) == LINE
