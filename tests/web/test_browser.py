"""The page in a real browser: what a person does with mouse, keyboard and phone, and what the browser must never do."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from cortext.model.message import THINKING, TOOL_CALL, TOOL_RESULT, Message, Part
from cortext.model.session import Origin, Session
from cortext.store.files.workspace import WorkspaceStore
from cortext.web.html.document import SiteEntry, document, first_page
from tests.faces.pond import SECRET, Pond, make_pond
from tests.support import chromium
from tests.support.cli import cortext
from tests.web.room import PATIENCE, Room, broken_rules, browsing, until
from tests.web.served import CLAUDE, Served, serving, with_program

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [
    pytest.mark.req("PAGE-01", "LOOK-05"),
    pytest.mark.skipif(chromium.program() is None, reason="no Chromium here: python -m tests.support.chromium"),
]

PICTURES = Path(__file__).resolve().parents[2] / ".cache" / "page"
PHONE = {"width": 390, "height": 800}
LONG = 3_000  # messages


def _long() -> list[Message]:
    found = []
    for number in range(LONG):
        role = ("user", "assistant", "assistant", "tool")[number % 4]
        message = Message(role=role, timestamp=f"2026-06-{1 + number // 300:02d}T10:{number % 60:02d}:00.000Z")
        if number % 4 == 2:
            call = Part(TOOL_CALL, id=f"c{number}", name="Bash", input={"command": f"make step-{number}"})
            message.parts = [Part(THINKING, text=f"thought {number}"), call]
        elif number % 4 == 3:
            message.parts = [Part(TOOL_RESULT, call_id=f"c{number - 1}", output=f"made {number}")]
        else:
            message.content = f"Turn {number}: {'some **words** to read. ' * (3 + number % 9)}"
        found.append(message)
    return found


SEVERAL = 900  # messages


def _difficult() -> list[Message]:
    """Messages of which many have no place of their own on the page: results shown in calls, two in one, empty ones."""
    found = []
    for number in range(SEVERAL):
        role = ("user", "assistant", "tool", "assistant", "assistant")[number % 5]
        message = Message(role=role, timestamp=f"2026-05-{1 + number // 60:02d}T10:{number % 60:02d}:00.000Z")
        if number % 5 == 1:
            calls = [Part(TOOL_CALL, id=f"{name}{number}", name="Bash", input={"command": name}) for name in "ab"]
            message.parts = calls
        elif number % 5 == 2:
            message.parts = [Part(TOOL_RESULT, call_id=f"{name}{number - 1}", output=f"made {number}") for name in "ab"]
        elif number % 5 == 3:
            message.parts = [Part(THINKING, text=" ")]  # nothing to show
        else:
            message.content = f"Turn {number}: {'some words to read. ' * (2 + number % 7)}"
        found.append(message)
    return found


@pytest.fixture(scope="module")
def pond(tmp_path_factory: pytest.TempPathFactory) -> Pond:
    made = make_pond(tmp_path_factory.mktemp("browser"))
    store = WorkspaceStore(str(made.folder))
    store.create(Session(id="005-debug-long", type="debug", title="A very long one", origin=Origin(tool="codex")))
    store.append("005-debug-long", *_long())
    store.create(Session(id="007-debug-hard", type="debug", title="A difficult one", origin=Origin(tool="codex")))
    store.append("007-debug-hard", *_difficult())
    store.create(Session(id="006-debug-edit", type="debug", title="An edit", origin=Origin(tool="claude")))
    edit = {"file_path": "heron.py", "old_string": "count = 1\nprint(count)", "new_string": "count = 17\nprint(count)"}
    root, *_ = store.append(
        "006-debug-edit",
        Message(role="user", content="שלום, please fix `heron.py`", timestamp="2026-07-01T10:00:00.000Z"),
        Message(role="assistant", content="The old way.", timestamp="2026-07-01T10:01:00.000Z"),
    )
    store.append(
        "006-debug-edit",
        Message(
            role="assistant",
            content="```python\ncount = 17\n```",
            timestamp="2026-07-01T10:02:00.000Z",
            parent=root.id,
            parts=[
                Part("text", text="```python\ncount = 17\n```"),
                Part(TOOL_CALL, id="e", name="Edit", input=edit),
            ],
        ),
        Message(role="tool", timestamp="2026-07-01T10:03:00.000Z", parts=[Part(TOOL_RESULT, call_id="e", output="ok")]),
    )
    return made


@pytest.fixture(scope="module")
def served(pond: Pond) -> Iterator[Served]:
    with serving(with_program(pond, "claude", CLAUDE), pond.folder) as running:
        yield running


@pytest.fixture(scope="module")
def room(served: Served) -> Iterator[Room]:
    PICTURES.mkdir(parents=True, exist_ok=True)
    with browsing(served) as made:
        yield made


def test_results_appear_while_typing_and_lead_to_the_message(room: Room) -> None:
    with room.page() as page:
        page.goto(f"{room.base}/")
        page.locator("#q").press_sequentially("seventeen her", delay=20)
        page.wait_for_selector("mark")
        assert page.locator(".card").first.locator("h2").inner_text() == "Herons at the pond"
        assert "q=seventeen" in page.url
        page.screenshot(path=PICTURES / "search.png")
        page.locator(".matches a").first.click()
        shown = page.wait_for_selector("article:target")
        assert shown and shown.get_attribute("id") == "m4"
        assert "Seventeen herons at 06:20." in shown.inner_text()


def test_several_values_of_a_filter_are_chosen_without_a_reload(room: Room) -> None:
    with room.page() as page:
        page.goto(f"{room.base}/")
        page.wait_for_selector("html[data-ready]")
        page.evaluate("window.stays = true")
        assert page.locator(".clear").is_hidden()
        menu = page.locator(".pick", has=page.locator("[name=tool]"))
        menu.locator("summary").click()
        menu.get_by_label("Gemini CLI").check()
        until(page, "document.querySelectorAll('.card').length === 1")
        menu.get_by_label("Codex").check()
        until(page, "document.querySelectorAll('.card').length > 1")
        chosen = {"Gemini CLI", "Codex"}
        assert set(page.locator(".card .tool").all_inner_texts()) == chosen
        assert page.evaluate("window.stays")
        assert "tool=codex&tool=gemini" in page.url  # a view that can be bookmarked
        for again in (False, True):
            if again:
                page.reload()
                page.wait_for_selector("html[data-ready]")
            assert set(menu.locator("[data-chosen]").inner_text().split(", ")) == chosen
            assert set(page.locator(".card .tool").all_inner_texts()) == chosen
        page.locator(".clear").click()
        page.wait_for_selector("html[data-ready]")
        assert menu.locator("[data-chosen]").inner_text() == "every tool"
        page.locator("select[name=status]").select_option("completed")
        until(page, "location.search === '?status=completed' && !document.querySelector('.clear').hidden")


def test_several_values_of_a_filter_are_chosen_with_the_keyboard(room: Room) -> None:
    with room.page() as page:
        page.goto(f"{room.base}/")
        page.wait_for_selector("html[data-ready]")
        page.locator(".pick > summary").first.focus()
        page.keyboard.press("Enter")
        for _ in range(2):
            page.keyboard.press("Tab")
            page.keyboard.press("Space")
        until(page, "new URLSearchParams(location.search).getAll('tool').length === 2")
        page.keyboard.press("Escape")
        assert page.evaluate("document.activeElement.matches('.pick:not([open]) > summary')")


@pytest.mark.parametrize("size", [None, {"width": 700, "height": 800}, PHONE], ids=["screen", "tablet", "phone"])
def test_the_menus_of_filters_fit_every_screen(room: Room, size: dict[str, int] | None) -> None:
    with room.page(size=size) as page:
        page.goto(f"{room.base}/?tool=gemini,codex&type=plan,debug")
        page.wait_for_selector("html[data-ready]")
        for menu in page.locator(".pick").all():
            menu.locator("summary").click()
            page.screenshot(path=PICTURES / f"filters-{size['width'] if size else 'screen'}.png")
            box = menu.locator(".sheet").bounding_box()
            width = page.viewport_size["width"] if page.viewport_size else 0
            assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= width
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            assert broken_rules(page) == []
            page.keyboard.press("Escape")


def test_calls_fold_and_diffs_show_signs(room: Room) -> None:
    with room.page() as page:
        room.open(page, "An edit")
        fold = page.locator("details.edit")
        assert not fold.locator("pre.diff").is_visible()
        fold.locator("summary").click()
        assert fold.locator(".line.removed").inner_text().strip().endswith("count = 1")
        assert fold.locator(".line.added .sign").inner_text() == "+"
        page.get_by_role("button", name="Open all calls").click()
        page.get_by_role("button", name="Fold all calls").click()
        assert not fold.locator("pre.diff").is_visible()
        assert page.locator("article").first.locator("p").evaluate("e => getComputedStyle(e).direction") == "rtl"


def test_a_branch_is_one_click_away(room: Room) -> None:
    with room.page() as page:
        room.open(page, "An edit")
        page.locator(".branches a:not([aria-current])").click()
        page.wait_for_selector("text=The old way.")
        assert page.locator("details.edit").count() == 0
        assert page.locator(".branches a[aria-current]").count() == 1


def test_forks_are_a_tree_to_switch_between(room: Room, pond: Pond) -> None:
    """From a fork to what it was forked from, to another fork of that, and to a fork of a fork: each is one click."""
    store = WorkspaceStore(str(pond.folder))
    store.create(Session(id="011-plan-weir", type="plan", title="The weir"))
    store.append("011-plan-weir", *(Message(role="user", content=f"stone {number}") for number in range(3)))
    ids = {"The weir": "011-plan-weir"}
    for before, title in (("The weir", "Higher"), ("The weir", "Lower"), ("Lower", "Lower still")):
        ids[title] = cortext("fork", ids[before], "--json", cwd=pond.folder, env=pond.env).json["id"]
        assert cortext("title", ids[title], title, cwd=pond.folder, env=pond.env).code == 0
    with room.page() as page:
        room.open(page, "The weir")
        shown = page.locator(".forks a > span")
        assert shown.all_inner_texts() == ["The weir", "Higher", "Lower", "Lower still"]
        assert page.locator(".forks ul ul a > span").all_inner_texts() == ["Lower still"]
        page.screenshot(path=PICTURES / "forks.png")
        for title in ("Lower still", "Higher", "The weir"):
            page.locator(".forks a").filter(has=page.locator(f"span:text-is('{title}')")).click()
            page.wait_for_selector(f"h1:text-is('{title}')")
            assert page.locator(".forks a[aria-current] > span").all_inner_texts() == [title]
            assert shown.count() == 4


def test_a_new_message_appears_in_an_open_conversation(room: Room, pond: Pond) -> None:
    with room.page() as page:
        room.open(page, "Knots")
        store = WorkspaceStore(str(pond.folder))
        store.append("004-learn-knots", Message(role="user", content="And the clove hitch?"))
        page.wait_for_selector("text=And the clove hitch?")
        assert page.locator("[data-count]").inner_text() == "3 messages"


def test_a_conversation_that_went_back_shows_only_the_new_branch(room: Room, pond: Pond) -> None:
    """It grew by as many messages as it went back: only the numbers of the messages tell that it is another branch."""
    store = WorkspaceStore(str(pond.folder))
    store.create(Session(id="008-debug-back", type="debug", title="Back and forth"))
    first, *_ = store.append("008-debug-back", *(Message(role="user", content=f"step {n}") for n in range(3)))
    with room.page() as page:
        room.open(page, "Back and forth")
        page.wait_for_timeout(1_000)  # the connection for live updates
        store.append(
            "008-debug-back",
            Message(role="user", content="another way", parent=first.id),
            Message(role="assistant", content="a good one"),
        )
        page.wait_for_selector("text=a good one")
        assert page.locator("#messages article").all_inner_texts()[0].endswith("step 0")
        assert "step 2" not in page.locator("#messages").inner_text()
        assert page.locator(".branches a").count() == 2


def test_a_revealed_message_does_not_stop_the_others(room: Room, pond: Pond) -> None:
    store = WorkspaceStore(str(pond.folder))
    store.create(Session(id="009-debug-run", type="debug", title="A run"))
    call = Part(TOOL_CALL, id="r", name="Bash", input={"command": "make"})
    store.append(
        "009-debug-run",
        Message(role="user", content=f"use {SECRET}"),
        Message(role="assistant", parts=[call]),
    )
    with room.page() as page:
        room.open(page, "A run")
        page.locator("a.secret").first.click()
        page.wait_for_selector(f"text={SECRET}")
        page.wait_for_timeout(1_000)
        answer = Message(role="tool", parts=[Part(TOOL_RESULT, call_id="r", output="it is made")])
        store.append("009-debug-run", answer, Message(role="user", content="And the next?"))
        page.wait_for_selector("text=And the next?")
        until(page, "document.querySelector('article#m1 pre.output')?.textContent === 'it is made'")
        assert SECRET in page.locator("#messages").inner_text()
        until(page, "[...document.querySelectorAll('[data-tick]')].at(-1).textContent.includes('And the next?')")


def test_a_long_conversation_is_read_by_scrolling(room: Room) -> None:
    with room.page() as page:
        room.open(page, "A very long one")
        assert page.locator("#messages article").count() <= 100
        for _ in range(30):
            page.mouse.wheel(0, 4_000)
            page.wait_for_timeout(40)
        until(page, "[...document.querySelectorAll('#messages article')].some(e => +e.dataset.seq > 200)")
        assert page.locator("#messages article").count() <= 280  # the farthest were removed
        page.keyboard.press("G")
        page.wait_for_selector(f"#m{LONG - 1}", state="attached")
        before = page.locator("#messages article").first.get_attribute("data-seq")
        page.mouse.wheel(0, -50_000)
        until(page, f"+document.querySelector('#messages article').dataset.seq < {before}")


def test_no_message_is_skipped_while_scrolling_there_and_back(room: Room) -> None:
    """Every message with something to show is in the document at some time, in both directions, and once at a time."""
    expected = {number for number in range(SEVERAL) if number % 5 != 3}
    look = """() => {
        const shown = [...document.querySelectorAll('#messages [data-seq]')].map(e => +e.dataset.seq);
        return [shown, document.querySelectorAll('#messages article').length];
    }"""
    with room.page() as page:
        room.open(page, "A difficult one")
        for direction, end in ((1, SEVERAL - 1), (-1, 0)):
            seen: set[int] = set()
            deadline = time.monotonic() + PATIENCE / 1000
            while end not in seen or len(seen) < len(expected):
                shown, articles = page.evaluate(look)
                assert sorted(shown) == sorted(set(shown)) and shown == sorted(shown)
                assert articles <= 280
                seen.update(shown)
                if end in shown:
                    break
                assert time.monotonic() < deadline, f"{len(seen)} of {len(expected)}"
                page.mouse.wheel(0, direction * 3_000)
                page.wait_for_timeout(30)
            assert sorted(expected - seen) == []


def test_fifty_thousand_messages_are_read_without_a_gap(room: Room, pond: Pond) -> None:
    """Scrolling, the ends, a link into the middle and the key for one's next message, far away in a run of an agent."""
    count, said = 50_000, 30_000
    store = WorkspaceStore(str(pond.folder))
    store.create(Session(id="010-debug-huge", type="debug", title="A huge one", origin=Origin(tool="codex")))
    store.append(
        "010-debug-huge",
        *(
            Message(
                role="user" if number in (0, said) else "assistant",
                content=f"Step {number}: {'and so on. ' * (1 + number % 5)}",
                timestamp=f"2026-04-{1 + number // 2_000:02d}T{number // 60 % 24:02d}:{number % 60:02d}:00.000Z",
            )
            for number in range(count)
        ),
    )

    def shown(page: Page) -> list[int]:
        found: list[int] = page.evaluate("[...document.querySelectorAll('#messages article')].map(e => +e.dataset.seq)")
        assert found == list(range(found[0], found[-1] + 1)) and len(found) <= 280
        return found

    with room.page() as page:
        room.open(page, "A huge one")
        here = page.url.partition("?")[0]
        for _ in range(60):
            page.mouse.wheel(0, 4_000)
            page.wait_for_timeout(20)
            shown(page)
        until(page, "[...document.querySelectorAll('#messages article')].at(-1).dataset.seq > 500")
        page.keyboard.press("G")
        page.wait_for_selector(f"#m{count - 1}", state="attached")
        first = shown(page)[0]
        page.mouse.wheel(0, -20_000)
        until(page, f"+document.querySelector('#messages article').dataset.seq < {first}")
        shown(page)
        page.goto(f"{here}?at=20000#m20000")
        page.wait_for_selector("html[data-ready] article#m20000:target")
        page.keyboard.press("j")
        page.wait_for_selector(f"html[data-ready] article#m{said}:target")
        page.keyboard.press("j")
        page.wait_for_selector("text=That is the last of your messages.")
        page.keyboard.press("k")
        page.wait_for_selector("html[data-ready] article#m0:target")
        store.append("010-debug-huge", Message(role="user", content="And live, too"))
        page.goto(f"{here}?from={count - 20}")
        page.wait_for_selector("text=And live, too")


def test_a_permanent_link_opens_the_message_in_its_call(room: Room) -> None:
    with room.page() as page:
        room.open(page, "A very long one")
        page.goto(f"{page.url.partition('#')[0]}?at=1999#m1999")  # the result of a call
        page.wait_for_selector("details.fold[open]")
        assert "made 1999" in page.locator("details.fold[open] pre.output").inner_text()
        assert page.locator("details.fold[open]").evaluate(
            "e => { const box = e.getBoundingClientRect(); return box.top >= 0 && box.top < innerHeight }"
        )


def test_a_link_to_a_call_opens_the_call(room: Room) -> None:
    with room.page() as page:
        room.open(page, "A very long one")
        page.goto(f"{page.url.partition('#')[0]}?at=1998#m1998")
        page.wait_for_selector("details.fold[open]")
        assert "make step-1998" in page.locator("article#m1998 details.fold[open]").inner_text()


def test_a_secret_is_revealed_by_a_click(room: Room) -> None:
    with room.page() as page:
        room.open(page, "The leaking boat")
        assert SECRET not in page.content()
        page.locator("a.secret").first.click()
        page.wait_for_selector(f"text={SECRET}")


def test_what_is_found_in_a_conversation_stays_at_hand_and_is_marked(room: Room) -> None:
    """Whoever follows the first hit still sees the others, and where the words stand; also in a call, which opens."""
    marks = "[...CSS.highlights.get('found')].map(range => range.toString().toLowerCase())"
    with room.page() as page:
        room.open(page, "Herons at the pond")
        page.locator("#find").fill("HERON.LOG")
        page.locator("#find").press("Enter")
        page.wait_for_selector("html[data-ready] .finds a")
        page.locator(".finds a").first.click()
        page.wait_for_selector("html[data-ready] details.fold[open]")
        assert page.locator(".finds a[aria-current]").count() == page.locator(".finds a").count() == 1
        assert set(page.evaluate(marks)) == {"heron.log"}
        room.open(page, "A very long one")
        page.locator("#find").fill("turn")
        page.locator("#find").press("Enter")
        page.wait_for_selector("html[data-ready] .finds a")
        before = len(page.evaluate(marks))
        page.mouse.wheel(0, 20_000)
        until(page, f"[...CSS.highlights.get('found')].length > {before}")  # in what was loaded since


def test_a_tag_is_added_found_and_removed(room: Room) -> None:
    with room.page() as page:
        room.open(page, "The leaking boat")
        page.locator("details.menu > summary").click()
        page.locator("#tags").fill("harbour")
        page.get_by_role("button", name="Tag", exact=True).click()
        page.wait_for_selector(".banner")
        page.get_by_role("link", name="#harbour").click()
        page.wait_for_url("**/?tag=%23harbour")
        assert page.locator(".card h2").all_inner_texts() == ["The leaking boat"]
        page.get_by_role("link", name="The leaking boat", exact=True).click()
        page.get_by_role("button", name="Remove the tag harbour").click()
        page.wait_for_selector(".banner")
        assert page.locator(".tag").count() == 0


@pytest.mark.parametrize("size", [None, PHONE], ids=["desktop", "phone"])
def test_a_message_is_copied_as_markdown(room: Room, size: dict[str, int] | None) -> None:
    with room.page(size=size) as page:
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        room.open(page, "Herons at the pond")
        article = page.locator("article#m2")
        article.hover()
        article.get_by_role("button", name="Copy this message as markdown").click()
        page.wait_for_selector(".toast:not([hidden])")
        copied = page.evaluate("navigator.clipboard.readText()")
        assert "tail -3 heron.log" in copied and "06:20 17" in copied  # the call and its result


def test_a_deletion_is_undone(room: Room) -> None:
    with room.page() as page:
        room.open(page, "The aquarium")
        page.locator("details.menu > summary").click()
        page.get_by_role("button", name="Move to the trash").click()
        page.wait_for_selector(".banner")
        assert "The aquarium" not in page.locator(".cards").inner_text()
        page.get_by_role("button", name="Undo").click()
        page.wait_for_selector("text=How warm must the aquarium be?")


def test_the_command_to_continue_can_be_copied(room: Room) -> None:
    with room.page() as page:
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        room.open(page, "Herons at the pond")
        page.get_by_role("link", name="Continue in…").click()
        page.wait_for_selector(".receipt")
        assert "6 of 6" in page.locator(".receipt").inner_text()
        page.get_by_role("button", name="Copy").click()
        page.wait_for_selector(".toast:not([hidden])")
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied.endswith("cortext resume 001-plan-herons-at-the-pond --ai claude")
        page.screenshot(path=PICTURES / "continue.png")


def test_everything_can_be_done_with_the_keyboard(room: Room) -> None:
    with room.page() as page:
        page.goto(f"{room.base}/")
        page.wait_for_selector("html[data-ready]")
        page.keyboard.press("Escape")
        page.keyboard.press("/")
        page.keyboard.type("seventeen")
        page.wait_for_selector("mark")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        page.wait_for_selector("html[data-ready] article#m4")
        page.keyboard.press("k")
        until(page, "document.activeElement.id === 'm0'")
        page.keyboard.press("j")
        until(page, "document.activeElement.id === 'm5'")
        page.keyboard.press("o")
        page.wait_for_selector("details.call[open]")
        page.keyboard.press("?")
        page.wait_for_selector("dialog[open]")
        page.keyboard.press("Escape")
        page.keyboard.press("c")
        page.wait_for_url("**/continue")
        page.wait_for_selector("html[data-ready] .tools")
        page.keyboard.press("u")
        page.wait_for_selector("html[data-ready] #messages article")
        page.keyboard.press("u")
        page.wait_for_selector(".card")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_rule_of_accessibility_is_broken(room: Room, scheme: str) -> None:
    broken = []
    with room.page(scheme=scheme) as page:
        addresses = {"home": "/", "search": "/?q=herons", "see": "/see", "files": "/why?commit=HEAD"}
        for name in ("home", "search", "An edit", "The leaking boat", "continue", "see", "files"):
            if name in addresses:
                page.goto(f"{room.base}{addresses[name]}")
            elif name == "continue":
                page.locator("[data-continue]").click()
                page.wait_for_selector(".receipt")
            else:
                room.open(page, name)
                page.keyboard.press("o")
            page.screenshot(path=PICTURES / f"{name.replace(' ', '-')}-{scheme}.png")
            broken += [f"{name}: {problem}" for problem in broken_rules(page)]
    assert broken == []


def test_a_phone_shows_everything_without_sideways_scrolling(room: Room) -> None:
    with room.page(size=PHONE) as page:
        for name in ("home", "An edit", "A very long one", "see"):
            page.goto(f"{room.base}/{'see' if name == 'see' else ''}")
            if name not in ("home", "see"):
                page.get_by_role("link", name=name, exact=True).click()
                page.wait_for_selector("#messages article")
            page.screenshot(path=PICTURES / f"{name.replace(' ', '-')}-phone.png")
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
        room.open(page, "An edit")
        page.locator("details.menu > summary").click()
        box = page.locator(".sheet").bounding_box()
        assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= PHONE["width"]


def test_the_structure_of_the_pages_stays(room: Room) -> None:
    outline = """() => [...document.querySelectorAll('header.top, nav, main, h1, h2, form[role], aside, section')]
        .filter(e => !e.closest('dialog, article, .cards'))
        .map(e => e.tagName.toLowerCase() + (e.className ? '.' + e.className : ''))"""
    with room.page() as page:
        page.goto(f"{room.base}/")
        assert page.evaluate(outline) == ["header.top", "nav", "main", "h1.aloud", "form.search"]
        room.open(page, "An edit")
        shown = page.evaluate(outline)
        assert shown == ["header.top", "nav", "main", "h1", "aside.side", "form.find", "h2", "h2", "section.messages"]


def test_reading_and_searching_work_without_scripts(room: Room) -> None:
    context = room.browser.new_context(storage_state=room.key, java_script_enabled=False)
    asked: list[str] = []
    context.on("request", lambda request: asked.append(request.url))
    try:
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(f"{room.base}/")
        page.locator("#q").fill("bowline")
        page.locator("#q").press("Enter")
        page.wait_for_selector(".matches a, [data-again]")
        while page.locator("[data-again]").count():  # the index is being built
            page.get_by_role("link", name="Try again").click()
            page.wait_for_selector(".matches a, [data-again]")
        page.locator(".matches a").first.click()
        assert "Teach me the bowline knot." in page.locator("article#m0").inner_text()
        page.goto(f"{room.base}/")
        page.locator(".pick > summary").first.click()
        for name in ("Codex", "Gemini CLI"):
            page.get_by_label(name).check()
        page.get_by_role("button", name="Apply").click()
        page.wait_for_url("**tool=codex&tool=gemini**")
        assert set(page.locator(".card .tool").all_inner_texts()) == {"Codex", "Gemini CLI"}
        page.get_by_role("link", name="A very long one", exact=True).click()
        page.get_by_role("link", name="Later messages").click()
        assert page.locator("#m40").count() == 1
    finally:
        context.close()
    assert asked and [url for url in asked if urlsplit(url).netloc != room.served.host] == []


@pytest.mark.req("PAGE-02")
def test_an_exported_file_opens_from_the_disk(room: Room, pond: Pond, tmp_path: Path) -> None:
    words = ("export", "001", "--format", "html")
    env = {**pond.env, "CORTEXT_EXPORT_PASSPHRASE": "seventeen herons"}
    (tmp_path / "plain.html").write_text(cortext(*words, cwd=pond.folder, env=env).out, encoding="utf-8")
    (tmp_path / "sealed.html").write_text(cortext(*words, "--encrypt", cwd=pond.folder, env=env).out, encoding="utf-8")
    assert cortext("export", "--format", "html", "--all", str(tmp_path / "site"), cwd=pond.folder, env=env).code == 0
    context = room.browser.new_context()
    context.set_default_timeout(PATIENCE)
    asked, said = [], []
    context.on("request", lambda request: asked.append(request.url))
    try:
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.goto(f"file://{tmp_path}/plain.html")
        page.locator("details.call > summary").click()
        assert "06:20 17" in page.locator("details.call pre.output").inner_text()
        page.goto(f"file://{tmp_path}/sealed.html")
        page.locator("#passphrase").fill("a wrong one")
        page.get_by_role("button", name="Open").click()
        page.wait_for_selector("text=That is not the passphrase.")
        assert "heron" not in page.content().casefold()
        page.locator("#passphrase").fill("seventeen herons")
        page.get_by_role("button", name="Open").click()
        page.wait_for_selector("text=Seventeen herons at 06:20.")
        page.goto(f"file://{tmp_path}/site/index.html")
        page.locator("#q").fill("bowline")
        page.wait_for_selector(r"text=/^1 of \d+ conversations/")  # earlier tests have forked some
        page.get_by_role("link", name="Knots").click()
        page.wait_for_selector("text=Teach me the bowline knot.")
    finally:
        context.close()
    assert [url for url in asked if not url.startswith("file://")] == [] and said == []


@pytest.mark.req("PAGE-02")
def test_the_search_of_a_site_finds_every_word(room: Room, tmp_path: Path) -> None:
    entries = []
    for name, last in (("one", "The ΚΌΣΜΟΣ and ﬁnally 東京都 in the Straße, zebra7"), ("two", "\U00020000 ÉTÉ ｘyz")):
        session = Session(id=name, title=f"The {name}")
        entry = SiteEntry(session, f"{name}.html")
        said = [*(f"turn {number} " * 50 for number in range(500)), last]
        messages = entry.noting(Message(role="user", content=text, seq=seq) for seq, text in enumerate(said))
        (tmp_path / f"{name}.html").write_text(document(session, messages), encoding="utf-8")
        entries.append(entry)
    (tmp_path / "index.html").write_text(first_page(entries), encoding="utf-8")
    context = room.browser.new_context()
    context.set_default_timeout(PATIENCE)
    try:
        page = context.new_page()
        page.goto(f"file://{tmp_path}/index.html")
        for text, titles in (
            ("zebra", ["The one"]),
            ("STRASSE", []),
            ("straße", ["The one"]),
            ("Straße turn", ["The one"]),
            ("Straße été", []),
            ("κόσμος", ["The one"]),
            ("京都", ["The one"]),
            ("finally", ["The one"]),
            ("\U00020000", ["The two"]),
            ("été XYZ", ["The two"]),
            ("turn 499", ["The one", "The two"]),
            ("ebra7", []),
            ("", ["The one", "The two"]),
        ):
            page.locator("#q").fill(text)
            assert page.locator("#list > li:not([hidden]) a").all_inner_texts() == titles, text
            assert page.locator("#count").inner_text() == f"{len(titles)} of 2 conversations"
        page.locator("#q").fill("zebra7")
        page.get_by_role("link", name="The one").click()
        page.wait_for_url("**/one.html*")
        until(page, "scrollY > 10000")  # at the word
    finally:
        context.close()


@pytest.mark.req("PAGE-02")
def test_an_encrypted_file_says_why_it_does_not_open(room: Room, pond: Pond, tmp_path: Path) -> None:
    env = {**pond.env, "CORTEXT_EXPORT_PASSPHRASE": "seventeen herons"}
    whole = cortext("export", "001", "--format", "html", "--encrypt", cwd=pond.folder, env=env).out
    middle = whole.index('data-ciphertext="') + 400
    flipped = "A" if whole[middle] != "A" else "B"
    for name, text in (
        ("whole", whole),
        ("damaged", whole[:middle] + flipped + whole[middle + 1 :]),
        ("torn", whole[: middle + 100]),
    ):
        (tmp_path / f"{name}.html").write_text(text, encoding="utf-8")
    without = "Object.defineProperty(globalThis, 'crypto', {value: {}})"  # as on a page without https
    said = {}
    for name, script in (("damaged", ""), ("torn", ""), ("whole", without)):
        context = room.browser.new_context()
        context.set_default_timeout(PATIENCE)
        try:
            if script:
                context.add_init_script(script)
            page = context.new_page()
            page.goto(f"file://{tmp_path}/{name}.html")
            page.locator("#passphrase").fill("seventeen herons")
            page.get_by_role("button", name="Open").click()
            page.wait_for_selector("#said:not(:empty):not(:text('Opening'))")
            said[name] = page.locator("#said").inner_text()
        finally:
            context.close()
    assert said["damaged"].startswith("This file is damaged or not complete") and said["torn"] == said["damaged"]
    assert said["whole"].startswith("This browser decrypts only files from the disk")
