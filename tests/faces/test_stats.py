"""`cortext stats`: the counts, the chart, and the same as JSON."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from cortext.faces.cortext.commands.figures import chart
from cortext.model.message import Message
from cortext.model.session import Session
from cortext.services.library.activity import Stats, Tally, last_days, ranked
from cortext.services.library.listing import Row
from cortext.store.files.workspace import WorkspaceStore
from tests.faces.pond import BOAT, HERONS, KNOTS, TANK, WALK, Pond, make_pond
from tests.support.cli import cortext
from tests.web.served import serving

ALL = len(HERONS) + len(BOAT) + len(WALK) + len(KNOTS) + len(TANK)


@pytest.fixture(scope="module")
def pond(tmp_path_factory: pytest.TempPathFactory) -> Pond:
    return make_pond(tmp_path_factory.mktemp("stats"))


def _row(**fields: object) -> Row:
    values = dict.fromkeys(Row._fields, "") | {"message_count": 3, "token_count": 30, "damage": 0, "straight": 1}
    return Row(**{**values, "kind": "workspace", **fields})  # type: ignore[arg-type]


@pytest.mark.req("LOOK-01")
def test_the_counts_as_json_and_plain(pond: Pond) -> None:
    done = cortext("stats", "--json", "--days", "3650", cwd=pond.folder, env=pond.env)
    assert done.code == 0, done.err
    counts = done.json
    assert (counts["sessions"], counts["messages"]) == (5, ALL)
    assert counts["first"] == TANK[0].timestamp
    assert counts["last_active"] == KNOTS[-1].timestamp
    busy = {day["day"]: day["messages"] for day in counts["days"] if day["sessions"]}
    assert busy == {
        "2026-02-01": len(TANK), "2026-03-02": len(HERONS), "2026-04-11": len(BOAT), "2026-05-20": len(WALK),
        "2026-06-01": len(KNOTS),
    }  # fmt: skip
    assert len(counts["days"]) == 3650
    assert [(tool["name"], tool["sessions"]) for tool in counts["tools"]] == [
        ("claude", 2), ("(none)", 1), ("gemini", 1), ("opencode", 1),
    ]  # fmt: skip
    plain = cortext("stats", "--here", "--days", "3650", cwd=pond.folder, env=pond.env).out
    assert f"4 sessions, {ALL - len(TANK)} messages" in plain
    assert re.search(rf"^2026-04-11  1 +{len(BOAT)} ", plain, re.MULTILINE)
    assert "█" not in plain and "\x1b" not in plain


def test_a_terminal_gets_a_chart(pond: Pond) -> None:
    on_screen = cortext("stats", "--days", "60", cwd=pond.folder, env={**pond.env, "COLUMNS": "80"})
    assert "60 days" in on_screen.out
    assert on_screen.code == 0


def test_no_sessions_and_invalid_options_are_handled(tmp_path: Path) -> None:
    nowhere = Pond(tmp_path / "home", tmp_path / "nowhere")
    for folder in nowhere:
        folder.mkdir()
    assert "No sessions yet" in cortext("stats", cwd=nowhere.folder, env=nowhere.env).out
    empty = cortext("stats", "--json", "--days", "2", cwd=nowhere.folder, env=nowhere.env).json
    assert (empty["sessions"], len(empty["days"]), empty["tools"]) == (0, 2, [])
    assert cortext("stats", "--days", "0", cwd=nowhere.folder, env=nowhere.env).code == 2


@pytest.mark.req("LOOK-01", "PAGE-01")
def test_a_conversation_counts_on_every_day_on_which_something_was_said(tmp_path: Path) -> None:
    """As on the page: a message counts on its own day, not on the last one of its conversation."""
    pond = make_pond(tmp_path)
    store = WorkspaceStore(str(pond.folder))
    store.create(Session(id="020-plan-weir", type="plan", title="Weir"))
    said = {"2026-07-01": 3, "2026-07-02": 1, "2026-07-09": 2}
    texts = ("stone upon stone", "and more stone than that")
    for day, count in said.items():
        stamps = [f"{day}T10:00:0{number}.000Z" for number in range(count)]
        store.append("020-plan-weir", *(Message(role="user", content=texts[count % 2], timestamp=at) for at in stamps))
    counts = cortext("stats", "--json", "--days", "3650", "--here", cwd=pond.folder, env=pond.env).json
    days = {day["day"]: day for day in counts["days"] if day["sessions"]}
    assert {day: days[day]["messages"] for day in said} == said
    assert all(days[day]["sessions"] == 1 for day in said)
    assert "2026-02-01" not in days  # of another store
    for measure in ("messages", "tokens"):
        assert sum(day[measure] for day in days.values()) == counts[measure] > 0
    with serving(pond.env, pond.folder) as served:
        served.open()
        page = served.activity("/see?days=365").text
    shown = dict(re.findall(r'<th scope="row">(2026-07-\d\d)</th><td class="n">1</td><td class="n">(\d+)', page))
    assert {day: int(count) for day, count in shown.items()} == said


def test_days_are_counted_back_from_today_in_utc() -> None:
    noon = 1_772_712_000.0  # 2026-03-05 12:00 UTC
    rows = [_row(last_active=f"2026-03-0{day}T23:59:59Z", tool="claude") for day in (1, 3, 5, 5)]
    busy = Tally().plus(rows[0])
    days = last_days(3, {"2026-03-02": busy, "2026-03-05": busy}, noon)
    assert {day: tally.sessions for day, tally in days.items()} == {"2026-03-03": 0, "2026-03-04": 0, "2026-03-05": 1}
    stats = Stats(rows, days)
    assert stats.total.as_dict() == {"sessions": 4, "messages": 12, "tokens": 120}
    assert [name for name, _ in ranked(stats.tools)] == ["claude"]


def test_the_chart_shows_every_day_with_messages() -> None:
    lines = chart([0, 1, 500, 1000], 1000, height=2)
    assert lines == ["   █", " ▁██"]
    assert chart([0, 0], 5) == [""] * 5


@pytest.mark.req("LOOK-01", "FIND-01")
def test_one_clock_local_days_in_tables_and_filters_and_utc_in_files(tmp_path: Path) -> None:
    pond = make_pond(
        tmp_path
    )  # its herons were counted at 10:00 UTC on 2 March, which is 3 March 14 hours further east
    env = {**pond.env, "TZ": "<+14>-14"}

    def rows(*words: str) -> list[dict[str, str]]:
        listed: list[dict[str, str]] = cortext("list", "--here", *words, "--json", cwd=pond.folder, env=env).json
        return listed

    [herons] = rows("--after", "2026-03-03", "--before", "2026-03-03")
    assert herons["id"] == "001-plan-herons-at-the-pond" and herons["last_active"] == "2026-03-02T10:05:00.000Z"
    assert rows("--before", "2026-03-02") == []
    assert herons in rows("--before", "2026-03") and herons in rows("--after", "2026")
    created = datetime.fromisoformat(herons["created_at"]) + timedelta(hours=14)
    shown = cortext("list", "--here", "--columns", "id,created", cwd=pond.folder, env=env).out
    assert f"{herons['id']}  {created:%Y-%m-%d}" in shown
    days = cortext("stats", "--here", "--days", "3660", "--json", cwd=pond.folder, env=env).json["days"]
    said = {day["day"] for day in days if day["messages"]}
    assert "2026-03-03" in said and "2026-03-02" not in said
