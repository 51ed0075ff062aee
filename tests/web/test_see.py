"""The activity page with data: days, models, files and costs, and what it shows while they are being read."""

from __future__ import annotations

import asyncio
import re
import threading
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from cortext.services.cost.prices import Prices, money
from cortext.services.cost.report import CostSum, Ledger, report
from cortext.web import see
from cortext.web.app import application
from cortext.web.library import PageLibrary
from cortext.web.live import Background, Note
from cortext.web.security import Access
from cortext.wiring.stores import Stores
from tests.faces.pond import SECRET, Pond, make_pond
from tests.web.served import Reply, Served
from tests.web.used import OPUS, STRANGER, day, fill

pytestmark = pytest.mark.req("PAGE-01", "COST-01")


@pytest.fixture(scope="module")
def pond(tmp_path_factory: pytest.TempPathFactory) -> Pond:
    made = make_pond(tmp_path_factory.mktemp("see"))
    fill(made)
    return made


def table(page: Reply, heading: str) -> list[list[str]]:
    """Return the rows of the first table after a heading."""
    after = page.text[page.text.index(f">{heading}<") :]
    body = after[after.index("<tbody>") : after.index("</tbody>")]
    rows = re.findall(r"<tr>(.*?)</tr>", body)
    return [[unescape(re.sub(r"<[^>]+>", "", cell)) for cell in re.findall(r"<t[hd].*?</t[hd]>", row)] for row in rows]


def test_messages_and_tokens_count_on_their_own_days(served: Served) -> None:
    page = served.activity("/see?days=30")
    days = {row[0]: row[1:] for row in table(page, "Messages by day")}
    assert days[day(20)] == ["1", "3", "3,000"] and days[day(3)] == ["1", "2", "6,500"]
    assert days[day(40)] == ["1", "15", "15,150"]  # the table is complete, whatever the chart shows
    assert days["2026-03-02"] == ["1", "6", "0"] and days["2026-06-01"] == ["1", "2", "0"]
    assert f"<title>{day(20)}: 3 messages</title>" in page.text
    tokens = served.activity("/see?by=tokens&days=90")
    assert f"<title>{day(3)}: 6,500 tokens</title>" in tokens.text and "24,650 tokens" in tokens.words


def test_models_tools_projects_and_types_have_tables(served: Served, pond: Pond) -> None:
    page = served.activity("/see?by=tokens")
    models = {row[0]: row[2:] for row in table(page, "Models")}
    assert models[OPUS] == ["1", "2", "8,000"] and models[STRANGER] == ["1", "1", "1,500"] and len(models) == 17
    assert ["Claude Code", "", "3", "13", "9,500"] in table(page, "Tools")
    assert [row[0] for row in table(page, "Tools")][:2] == ["Codex", "Claude Code"]  # by tokens
    project = next(row for row in table(page, "Projects") if row[0].endswith("/pond"))
    assert project[-1] == "24,650"
    assert table(page, "Types")[0] == ["build", "", "2", "20", "24,650"]


def test_the_files_that_were_worked_on_are_listed(served: Served, pond: Pond) -> None:
    page = served.activity("/see")
    files = {row[0]: row[2:] for row in table(page, "Files worked on")}
    assert files[f"{pond.folder}/reeds.py"] == ["1", "1", "1", day(3)]
    assert any(name.endswith("heron.log") for name in files)
    assert SECRET not in page.text and "[masked" in page.text
    assert 'href="/?q=pond%2Freeds.py"' in page.text


def test_costs_are_drawn_with_a_table_behind_each_chart(served: Served) -> None:
    page = served.activity("/see")
    # Opus: 5 and 25 dollars per million tokens.
    first, second = (1_000 * 5 + 2_000 * 25) / 1e6, (1_000 * 5 + 4_000 * 25) / 1e6
    costs = page._replace(text=page.text[page.text.index('id="costs"') :])
    assert f"${first + second:.2f} + unknown" in costs.words
    assert f"<title>{day(3)}: {round(second * 100)} US cents</title>" in costs.text
    days = dict(table(costs, "The last 90 days"))
    assert days == {day(3): "$0.10 + unknown", day(20): "$0.055", day(40): "unknown"}
    models = table(costs, "Models")
    assert models[0] == [OPUS, "", "8,000", f"${first + second:.2f}"] and models[-1][0] == "5 others"
    assert models[-1][2:] == ["5,050", "unknown"] and len(models) == 13
    assert ["Claude Code", "", "9,500", f"${first + second:.2f} + unknown"] in table(costs, "Tools")
    assert table(costs, "Projects")[0][2:] == ["24,650", f"${first + second:.2f} + unknown"]
    assert re.search(r"Most expensive.*Reeds.*\$0\.16", costs.text, re.DOTALL)
    assert "Unknown price: " in costs.words and served.get("/see/costs").status == 308


def test_the_rest_of_a_long_table_is_one_row() -> None:
    from cortext.web.see import _rows

    entries = [CostSum(name=f"m{number}", calls=1, cost=1.0) for number in range(13)]
    assert len(_rows(entries, str)) == 13
    rows = _rows([*entries, CostSum(name="x", calls=1, unpriced=1)], str)
    assert len(rows) == 13 and rows[-1][:2] == ("2 others", "$1.00 + unknown")


def test_calls_that_are_summed_up_together_have_the_same_sums(pond: Pond, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in pond.env.items():
        monkeypatch.setenv(name, value)
    stores = Stores(str(pond.folder))
    listing = stores.listing()
    listing.refresh()
    calls = [*Ledger(listing, Prices()).calls()]
    calls += [priced._replace(call=priced.call._replace(at=priced.call.at + 60)) for priced in calls]
    together = see._together(calls)
    assert len(together) == len(calls) // 2
    for by in see.SUMS:
        whole, short = report(calls, by), report(together, by)
        assert [(entry.name, entry.tokens, money(entry.cost, entry.unpriced)) for entry in whole.entries] == [
            (entry.name, entry.tokens, money(entry.cost, entry.unpriced)) for entry in short.entries
        ]


class Slow:
    """Work that waits until it may go on."""

    def __init__(self) -> None:
        self.may, self.made = threading.Event(), 0

    def __call__(self, note: Note) -> int:
        note(3, 10)
        assert self.may.wait(60)
        note(10, 10)
        self.made += 1
        return self.made


def test_long_work_is_made_once_and_kept() -> None:
    async def check() -> None:
        slow = Slow()
        background = Background(slow, patience=0.05)
        assert await background.get("a") == (None, False) and (background.done, background.total) == (3, 10)
        slow.may.set()
        background._patience = 60
        assert await background.get("a") == (1, True) and await background.get("a") == (1, True)
        slow.may.clear()
        background._patience = 0.05
        assert await background.get("b") == (1, False)  # the one before, meanwhile
        slow.may.set()
        background._patience = 60
        assert await background.get("b") == (2, True) and slow.made == 2
        background.close()

    asyncio.run(check())


def test_long_work_ends_with_the_server_and_errors_are_passed_on() -> None:
    slow = Slow()
    background = Background(slow, patience=0.05)
    assert asyncio.run(background.get("a")) == (None, False)
    background.close()
    slow.may.set()
    background._pool.shutdown(wait=True)
    assert slow.made == 0

    def fails(note: Note) -> int:
        note(1, 2)
        assert slow.may.wait(60)
        raise ValueError("on purpose")

    async def check() -> None:
        slow.may.clear()
        failing = Background(fails, patience=0.05)
        assert await failing.get("a") == (None, False)
        slow.may.set()  # it fails while nobody waits
        failing._patience = 60
        for _ in range(2):
            with pytest.raises(ValueError, match="on purpose"):
                await failing.get("a")
        failing.close()

    asyncio.run(check())


async def _get(app: Any, path: str) -> str:
    """Ask the application itself, without a server."""
    sent: list[dict[str, Any]] = []
    scope = {
        "type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b"", "headers": [],
        "scheme": "http", "server": ("127.0.0.1", 80), "client": ("127.0.0.1", 1), "http_version": "1.1",
        "root_path": "",
    }  # fmt: skip

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return b"".join(message.get("body", b"") for message in sent).decode()


def test_the_page_says_how_far_the_reading_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    pond = make_pond(tmp_path)
    may = threading.Event()
    read = see.read

    def slowly(stores: Any, note: Note) -> see.Seen:
        note(2, 5)
        assert may.wait(60)
        return read(stores, note)

    monkeypatch.setattr(see, "read", slowly)
    library = PageLibrary(lambda: None, str(pond.folder))
    app, _ = application(library, Access(80, ("127.0.0.1",)))
    app.state.background._patience = 0.05

    async def check() -> None:
        page = await _get(app, "/see")
        assert "One moment" in page and "Reading conversations: 2 of 5" in page and "data-again" in page
        assert "Longest" in page and "chart" not in page and "Tokens" not in page
        app.state.background._patience = 60
        may.set()
        page = await _get(app, "/see")
        assert "One moment" not in page and page.count('<svg class="chart') == 2 and 'id="costs"' in page

    try:
        asyncio.run(check())
    finally:
        may.set()
        app.state.background.close()
        library.close()
