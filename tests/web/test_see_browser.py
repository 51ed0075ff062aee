"""The activity page in a real browser, with charts of days and costs: light, dark, on a phone, and while it waits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.faces.pond import make_pond
from tests.support import chromium
from tests.web.room import Room, broken_rules, browsing
from tests.web.served import serving
from tests.web.test_browser import PHONE, PICTURES
from tests.web.used import OPUS, fill

pytestmark = [
    pytest.mark.req("PAGE-01", "COST-01"),
    pytest.mark.skipif(chromium.program() is None, reason="no Chromium here: python -m tests.support.chromium"),
]


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    pond = make_pond(tmp_path_factory.mktemp("see-browser"))
    fill(pond)
    PICTURES.mkdir(parents=True, exist_ok=True)
    with serving(pond.env, pond.folder) as running, browsing(running) as made:
        yield made


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_charts_and_tables_break_no_rule_of_accessibility(room: Room, scheme: str) -> None:
    with room.page(scheme=scheme) as page:
        page.goto(f"{room.base}/see?by=tokens")
        page.wait_for_selector("#costs svg.chart")
        for fold in page.locator("details.table-fold > summary").all():
            fold.click()
        page.screenshot(path=PICTURES / f"costs-{scheme}.png", full_page=True)
        assert broken_rules(page) == []
        # A bar differs from the paper, in both schemes.
        colours = "e => [getComputedStyle(e).fill, getComputedStyle(document.documentElement).backgroundColor]"
        bar, paper = page.locator("#costs svg.chart rect.bar[height]:not([height='0.0'])").first.evaluate(colours)
        assert bar != paper


def test_a_phone_shows_the_charts_without_sideways_scrolling(room: Room) -> None:
    with room.page(size=PHONE) as page:
        page.goto(f"{room.base}/see")
        page.wait_for_selector("#costs svg.chart")
        page.screenshot(path=PICTURES / "costs-phone.png", full_page=True)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_page_is_asked_again_until_the_charts_are_there(room: Room) -> None:
    asked = []

    def waiting(route: Any) -> None:
        asked.append(route.request.url)
        if len(asked) > 1:
            route.continue_()
            return
        answer = route.fetch()
        body = answer.text()
        start, end = body.index("<main"), body.index("</main>")
        route.fulfill(response=answer, body=f'{body[:start]}<main id="main"><p data-again>One moment{body[end:]}')

    with room.page() as page:
        page.route("**/see", waiting)
        page.goto(f"{room.base}/see")
        assert page.locator("[data-again]").count() == 1
        page.wait_for_selector("#costs svg.chart")
        assert len(asked) == 2 and page.locator("[data-again]").count() == 0
        assert page.get_by_role("rowheader", name=OPUS).count() == 2
