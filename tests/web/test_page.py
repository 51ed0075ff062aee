"""`cortext web` without a browser: find, read, change, undo and continue, as a reader without scripts does."""

from __future__ import annotations

import http.client
import json
import re
import sys
import time
from collections.abc import Iterator
from html import escape, unescape
from pathlib import Path
from urllib.parse import urlencode

import pytest

from cortext.model.message import FORKED_FROM, FORKED_IN, TOOL_CALL, TOOL_RESULT, Message, Part
from cortext.model.session import Change, Origin, Session
from cortext.safety import terminal
from cortext.services.workspace.order import add_note
from cortext.store.files.workspace import WorkspaceStore
from cortext.web.library import store_key
from cortext.wiring.stores import Stores
from tests.faces.pond import SECRET, Pond, make_pond
from tests.support.cli import cortext
from tests.support.waiting import wait_until
from tests.web.served import CLAUDE, Served, serving, with_program

pytestmark = pytest.mark.req("PAGE-01", "LOOK-05")


SIGNS = "a\x07b\x1b[31mred\u202eevil\u2066\x9b31m"


@pytest.fixture(scope="module")
def pond(tmp_path_factory: pytest.TempPathFactory) -> Pond:
    made = make_pond(tmp_path_factory.mktemp("page"))
    store = WorkspaceStore(str(made.folder))
    store.create(Session(id="005-debug-branches", type="debug", title="Branches", origin=Origin(tool="codex")))
    root, *_ = store.append("005-debug-branches", Message(role="user", content="the root", id="root"))
    store.append("005-debug-branches", Message(role="assistant", content="the first way"))
    store.append("005-debug-branches", Message(role="user", content="the second way", parent=root.id))
    store.append(
        "005-debug-branches",
        Message(
            role="assistant",
            parts=[
                Part("thinking", text="weighing the ways"),
                Part(
                    TOOL_CALL,
                    id="e1",
                    name="Edit",
                    input={"file_path": "way.py", "old_string": "a = 1\nb = 2", "new_string": "a = 1\nb = 3"},
                ),
            ],
        ),
        Message(role="tool", parts=[Part(TOOL_RESULT, call_id="e1", output="edited")]),
    )
    store.create(Session(id="006-debug-tree", type="debug", title="A tree"))

    def said(text: str, after: str = "") -> str:
        return store.append("006-debug-tree", Message(role="user", content=text, parent=after))[0].id

    root_of_tree = said("root")
    said("first")
    second = said("second", root_of_tree)
    said("end of the second")
    said("third", second)
    said("fourth", root_of_tree)
    store.create(Session(id="008-plan-both", type="plan", title="Both machines"))
    for text, more in (
        ("where we began", None),
        ("said on the first machine", None),
        ("said on the second machine", {FORKED_FROM: "began", FORKED_IN: "Codex"}),
    ):
        key = "began" if text == "where we began" else ""
        store.append("008-plan-both", Message(role="user", content=text, id=key, extra=more))
    store.create(Session(id="007-debug-signs", type=f"de{SIGNS}bug", title=f"Odd {SIGNS}", summary=f"About {SIGNS}"))
    store.append("007-debug-signs", Message(role="user", content=f"plover {SIGNS}", model=f"m{SIGNS}"))
    add_note(Stores(str(made.folder)).workspace_store(), store.get("007-debug-signs"), f"A note {SIGNS}")
    home = WorkspaceStore(str(made.home / ".local" / "share" / "cortext" / "home"))
    home.create(Session(id="key", title="A key", origin=Origin(tool="codex")))
    home.append(
        "key",
        Message(role="assistant", parts=[Part(TOOL_CALL, id="k", name="Bash", input={"command": "cat key"})]),
        Message(role="tool", parts=[Part(TOOL_RESULT, call_id="k", output=f"it is {SECRET}")]),
        Message(role="assistant", content="after that"),
    )
    for number in range(25):
        home.create(Session(id=f"flock-{number}", title=f"Birds {number}"))
        home.append(f"flock-{number}", Message(role="user", content=f"a flock of {number} birds"))
    return made


@pytest.fixture(scope="module")
def env(pond: Pond) -> dict[str, str]:
    with_program(pond, "terminal", 'pwd > "$HOME/opened"\nfor word; do echo "$word" >> "$HOME/opened"; done')
    return with_program(pond, "claude", CLAUDE) | {"TERMINAL": "terminal"}


@pytest.fixture(scope="module")
def served(pond: Pond, env: dict[str, str]) -> Iterator[Served]:
    with serving(env, pond.folder) as running:
        assert running.open().status == 200
        yield running


def test_the_list_shows_every_conversation_newest_first(served: Served) -> None:
    page = served.get("/")
    titles = re.findall(r'<h2 dir="auto"><a href="[^"]+">([^<]+)</a>', page.text)
    others = {
        escape(terminal.line(f"Odd {SIGNS}")),
        "Branches",
        "A tree",
        "Both machines",
        "A key",
        *(f"Birds {number}" for number in range(25)),
    }
    assert set(titles) == {"Knots", "A long walk", "The leaking boat", "Herons at the pond", "The aquarium", *others}
    assert titles.index("Knots") < titles.index("The leaking boat") < titles.index("The aquarium")


@pytest.mark.req("SAFE-01")
def test_titles_types_and_notes_lose_signs_that_turn_or_hide_text(served: Served, pond: Pond, tmp_path: Path) -> None:
    link = served.link(escape(terminal.line(f"Odd {SIGNS}")))
    texts = [served.get(path).text for path in ("/", "/?q=plover", "/see", link, f"{link}/continue")]
    for words in (("007",), ("--all", str(tmp_path / "site"))):
        done = cortext("export", *words, "--format", "html", cwd=pond.folder, env=pond.env)
        assert done.code == 0, done.err
        texts.append(done.out)
    texts += [path.read_text("utf-8") for path in (tmp_path / "site").glob("*.html")]
    assert sum("Odd a" in text for text in texts) >= 6 and "A note a" in texts[3]
    for text in texts:
        body = re.sub(r"<script>.*?</script>|<style>.*?</style>", "", text, flags=re.DOTALL)
        assert terminal.block(body) == body.replace("\r\n", "\n")


def test_a_filter_by_an_odd_type_finds_it(served: Served) -> None:
    field = re.search(r'name="type" value="(de[^"]+bug)"', served.get("/").text)
    assert field and not set(SIGNS) & set("\x07\x1b\u202e\u2066\x9b") & set(field[1])
    for query in ({"type": unescape(field[1])}, {"type": f"learn,{unescape(field[1])}"}):
        page = served.get(f"/?{urlencode(query)}").text
        assert "Odd " in page and f'value="{field[1]}" checked' in page
    assert "Odd " not in served.get("/results?type=learn").text


@pytest.mark.req("TRUE-05")
def test_what_is_not_captured_is_shown_until_it_is(served: Served, pond: Pond) -> None:
    folder = Path(pond.env["HOME"]) / ".local" / "state" / "cortext" / "uncaptured"
    folder.mkdir(parents=True)
    fields = {"tool": "vibe", "key": "k", "path": "/p/meta.json", "since": "2026-11-18T10:00:00Z", "why": "<b>odd</b>"}
    (folder / "one.json").write_text(json.dumps(fields))
    try:
        page = served.get("/").text
        assert "Not everything is captured: vibe: /p/meta.json" in page and "&lt;b&gt;odd" in page
    finally:
        (folder / "one.json").unlink()
    assert "Not everything is captured" not in served.get("/").text


def test_filters_are_in_the_address(served: Served, pond: Pond) -> None:
    assert "The leaking boat" in served.get("/?tool=gemini").text
    assert "Herons at the pond" not in served.get("/?tool=gemini").words.partition("conversations")[2]
    assert "The leaking boat" in served.get("/?status=completed&type=debug").text
    only = served.get(f"/results?project={pond.folder}&before=2026-03-30").text
    assert "Herons at the pond" in only and "leaking" not in only
    wrong = served.get("/?after=whenever")
    assert wrong.status == 400 and "2026-11-15" in wrong.text
    assert served.get("/?project=/etc").status == 400


def test_a_search_marks_the_words_and_says_why(served: Served) -> None:
    page = served.get("/?q=seventeen+herons")
    assert "<mark>Seventeen</mark> <mark>herons</mark>" in page.text and "by words" in page.text
    hits = re.findall(r"<li><a .*?</li>", page.text)
    assert hits and all('class="why"' in hit for hit in hits), "every hit, not only every conversation"
    assert "its title" in served.get("/?q=aquarium").words
    link = unescape(re.findall(r'<a href="(/c/[^"]+#m4)"', page.text)[0])
    there = served.get(link.partition("#")[0])
    assert 'id="m4"' in there.text and "Seventeen herons at 06:20." in there.text
    assert "Nothing was found" in served.get("/results?q=zzzzqqq&tool=claude").text


def test_results_while_typing_find_the_beginning_of_a_word(served: Served) -> None:
    assert "Knots" in served.get("/results?q=bowl").text


@pytest.mark.req("FIND-11")
def test_what_occurs_nowhere_is_said_while_it_is_typed(served: Served) -> None:
    page = served.get("/results?q=countHeronsAtPond")
    assert "“countHeronsAtPond” occurs nowhere" in page.words or '"countHeronsAtPond" occurs nowhere' in page.words
    assert "These are the nearest." in page.words and 1 <= page.text.count('class="card"') <= 5
    assert "occurs nowhere" not in served.get("/results?q=seventee").words


def test_a_call_is_folded_together_with_its_result(served: Served) -> None:
    page = served.get(served.link("Herons at the pond")).text
    fold = re.search(r'<details class="fold call">.*?</details>', page, re.DOTALL)
    assert fold and "tail -3 heron.log" in fold[0] and "06:20 17" in fold[0] and 'id="m3"' in fold[0]
    assert '<article class="message tool"' not in page


def test_an_edit_is_a_diff_and_thinking_is_folded(served: Served) -> None:
    page = served.get(served.link("Branches")).text
    assert 'class="line removed"' in page and 'class="line added"' in page and "+1 −1" in page
    assert re.search(r'<details class="fold thinking">\s*<summary>.*weighing the ways', page)


def test_branches_can_be_switched(served: Served) -> None:
    here = served.link("Branches")
    page = served.get(here)
    assert "the second way" in page.words and "the first way" not in page.words
    other = unescape(re.findall(r'<a href="([^"]+branch=1[^"]*)"', page.text)[0])
    assert "the first way" in served.get(other).words and "the second way" not in served.get(other).words
    assert served.get(f"{here}?branch=77").status == 404


@pytest.mark.req("SELF-04")
def test_branches_of_two_machines_are_counted_and_shown_one_by_one(served: Served) -> None:
    link = served.link("Both machines")
    for text in (served.get("/").text, served.get("/results?q=machine").text):
        card = text[text.index("Both machines") :].partition("<time")[0]
        assert "<span>2 branches</span>" in card
    assert "branches</span>" not in served.get("/results?q=heron").text
    page = served.get(link)
    assert f'<a href="{link}">2 branches</a>' in page.text
    ways = [served.get(unescape(way)).words for way in re.findall(r'<a href="([^"]+branch=\d+[^"]*)"', page.text)]
    said = [("said on the first machine" in words, "said on the second machine" in words) for words in ways]
    assert sorted(said) == [(False, True), (True, False)] and all("where we began" in words for words in ways)


def test_branches_are_a_tree(served: Served) -> None:
    """A branch stands inside the one it leaves, three levels deep."""
    page = served.get(served.link("A tree")).text
    tree = page[page.index('<ul class="branches">') :]
    depth, shape = 0, []
    for found in re.finditer(r"<(/?)ul|(from the beginning|after #\d+)", tree[: tree.index("<h2>")]):
        depth += (-1 if found[1] else 1) if not found[2] else 0
        if found[2]:
            shape.append((depth, found[2]))
    assert shape == [(1, "from the beginning"), (2, "after #0"), (3, "after #2"), (2, "after #0")]


def test_a_secret_is_masked_until_it_is_revealed(served: Served) -> None:
    here = served.link("The leaking boat")
    assert SECRET not in served.get(here).text and "masked anthropic-key" in served.get(here).text
    assert SECRET in served.get(f"{here}/m/0?as=revealed").text
    assert SECRET in served.get(f"{here}?at=0&reveal=0").text
    assert SECRET not in served.get("/?q=service+key").text
    for kind in ("markdown", "json", "html"):
        assert SECRET not in served.get(f"{here}/export?format={kind}").text


def test_long_conversations_are_read_in_windows(served: Served) -> None:
    here = served.link("A long walk")
    first = served.get(here).text
    assert first.count("<article") == 40 and 'data-total="52"' in first and "Later messages" in first
    later = unescape(re.findall(r'<a href="([^"]+)" data-later', first)[0])
    assert 'id="m51"' in served.get(later).text
    piece = served.get(f"{here}/messages?from=40&count=5")
    assert (piece.headers["x-start"], piece.headers["x-end"], piece.headers["x-total"]) == ("40", "45", "52")
    assert piece.text.count("<article") == 5
    assert 'id="m30"' in served.get(f"{here}?at=30").text


def test_words_are_found_inside_a_conversation(served: Served) -> None:
    page = served.get(f"{served.link('A long walk')}?find=step+17+of")
    assert "1 with step 17 of" in page.words
    assert "1 with TAIL -3" in served.get(f"{served.link('Herons at the pond')}?find=TAIL+-3").words  # in a call


def test_a_secret_in_a_result_is_revealed_with_its_call(served: Served) -> None:
    """Also for readers without scripts, whose link names the call: the result is a message of its own."""
    here = served.link("A key")
    page = served.get(here)
    assert SECRET not in page.text
    link = unescape(re.findall(r'class="secret" href="([^"]+)"', page.text)[0])
    assert SECRET in served.get(link.partition("#")[0]).text
    assert SECRET in served.get(f"{here}/m/0?as=revealed").text
    copied = served.get(f"{here}/m/0?as=markdown").text
    assert "cat key" in copied and "masked anthropic-key" in copied and "after that" not in copied


def test_more_results_of_a_search_are_one_click_away(served: Served) -> None:
    first = served.get("/?q=flock").text
    more = unescape(re.findall(r'<a href="([^"]+)" data-more', first)[0])
    assert first.count('<li class="card">') == 20 and served.get(more).text.count('<li class="card">') == 25


def test_one_message_is_copied_as_markdown(served: Served) -> None:
    assert served.get(f"{served.link('Knots')}/m/1?as=markdown").text == "The rabbit comes out of the hole.\n"


def test_a_new_message_is_announced(served: Served, pond: Pond) -> None:
    connection = http.client.HTTPConnection(served.host, timeout=20)
    connection.request("GET", f"{served.link('Knots')}/live", headers={"Cookie": served.cookie})
    answer = connection.getresponse()
    assert answer.readline() == b"retry: 2000\n"
    WorkspaceStore(str(pond.folder)).append("004-learn-knots", Message(role="user", content="And the sheet bend?"))
    lines = [answer.readline() for _ in range(3)]
    connection.close()
    assert b"event: changed\n" in lines
    assert "And the sheet bend?" in served.get(f"{served.link('Knots')}/messages?from=2").text


@pytest.mark.parametrize("path", ["/", "knots"])
def test_what_changed_before_a_page_follows_is_announced_too(served: Served, pond: Pond, path: str) -> None:
    here = "/" if path == "/" else f"/c/{store_key(str(pond.folder))}/004-learn-knots"
    shown = re.findall(r'data-state="(\w+)"', served.get(here).text)[0]
    WorkspaceStore(str(pond.folder)).append("004-learn-knots", Message(role="user", content="And the hitch?"))
    ends = time.monotonic() + 20
    while shown in served.get(here).text:  # until the server knows it: only then a follower begins
        assert time.monotonic() < ends
    connection = http.client.HTTPConnection(served.host, timeout=20)
    connection.request("GET", f"{here.rstrip('/')}/live?shown={shown}", headers={"Cookie": served.cookie})
    answer = connection.getresponse()
    lines = [answer.readline() for _ in range(4)]
    connection.close()
    assert b"event: changed\n" in lines


def test_the_charts_have_a_table_behind_them(served: Served) -> None:
    page = served.activity("/see?by=messages&days=365")
    assert page.text.count('<svg class="chart') == 2 and "2026-03-02" in page.text
    assert "Claude Code" in page.words and 'href="/?tool=claude"' in page.text
    assert served.get("/see?by=nonsense").status == 400


def test_the_receipt_says_what_would_be_carried_over(served: Served, pond: Pond) -> None:
    here = served.link("Herons at the pond")
    page = served.get(f"{here}/continue?tool=claude")
    assert "6 of 6" in page.words and "Tool calls 1" in page.words
    assert re.search(r"Tokens about \d+ Price about \$0\.\d+ ", page.words), page.words  # though it is below a cent
    command = f"cd {pond.folder} && cortext resume 001-plan-herons-at-the-pond --ai claude"
    assert command in page.words and command in served.get(f"{here}/continue/claude").words
    assert served.get(f"{here}/continue/gemini").status == 400  # not installed
    assert not list(pond.home.rglob(".claude/projects/*"))  # nothing was written


def test_a_terminal_opens_only_after_a_confirmation(served: Served, pond: Pond) -> None:
    here = served.link("Herons at the pond")
    opened = pond.home / "opened"
    assert served.post(f"{here}/terminal", {"tool": "claude"}).status == 400 and not opened.exists()
    assert served.post(f"{here}/terminal", {"tool": "claude", "confirmed": "yes"}).status == 303
    wait_until(lambda: opened.exists() and "claude" in opened.read_text(), 20, "a terminal opens")
    lines = opened.read_text().splitlines()
    assert lines[0] == str(pond.folder)
    assert lines[1] == "-e" and lines[2].endswith("cortext")
    assert lines[3:] == ["resume", "001-plan-herons-at-the-pond", "--ai", "claude"]


def test_a_conversation_is_renamed_stopped_and_forked(served: Served, pond: Pond, env: dict[str, str]) -> None:
    here = served.link("Knots")
    assert served.post(f"{here}/title", {"title": "Knots  and bends"}).status == 303
    assert served.link("Knots and bends") == here
    assert served.post(f"{here}/title", {"title": "  "}).status == 400
    stopped = served.post(f"{here}/stop")
    assert stopped.status == 303 and "paused" in served.get(stopped.headers["location"]).words
    assert "004-learn-knots" in " ".join(pond.log[:1])  # saved in git, as `cortext stop` does
    done = served.post(f"{here}/complete")
    assert done.status == 303 and "completed" in served.get(done.headers["location"]).words
    assert "--force" in served.get(f"{here}/continue?tool=claude").words
    forked = served.post(f"{here}/fork", {"at": "1"})
    page = served.get(forked.headers["location"])
    assert "Knots and bends (fork)" in page.words and f'forked from <a href="{here}">004-learn-knots</a>' in page.text
    fork = forked.headers["location"].partition("?")[0]
    for address in (here, fork):  # each shows the other
        text = served.until(address, lambda reply: "branches forks" in reply.text).text
        tree = text.partition('<ul class="branches forks">')[2].partition("<h2>")[0]
        assert re.findall(r'href="([^"]+)"', tree) == [here, fork]
    assert served.post(f"{here}/fork", {"at": "x"}).status == 400
    rows = cortext("list", "--json", cwd=pond.folder, env=env).json
    assert {row["title"]: row["status"] for row in rows}["Knots and bends"] == "completed"


def test_a_deletion_is_undone_from_the_next_page(served: Served) -> None:
    here = served.link("The aquarium")
    gone = served.post(f"{here}/delete")
    page = served.get(gone.headers["location"])
    assert "Moved claude-tank to the trash." in page.words and served.get(here).status == 404
    key = re.findall(r'name="key" value="([^"]+)"', page.text)[0]
    assert served.post("/restore", {"key": "../../etc"}).status == 404
    back = served.post("/restore", {"key": key})
    assert back.status == 303 and "How warm must the aquarium be?" in served.get(back.headers["location"]).words


def test_an_empty_home_says_what_to_do(tmp_path: Path, home: Path) -> None:
    with serving({"HOME": str(home), "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}, tmp_path) as empty:
        empty.open()
        assert "cortext import" in empty.get("/").words
        assert "Nothing to show yet" in empty.get("/see").words


def test_a_port_that_is_taken_is_reported(served: Served, pond: Pond, env: dict[str, str]) -> None:
    port = served.host.partition(":")[2]
    done = cortext("web", "--no-open", "--port", port, cwd=pond.folder, env=env)
    assert done.code == 2 and "cannot listen on 127.0.0.1" in done.err and "--port" in done.err


def test_the_address_is_printed_as_json(served: Served) -> None:
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{43}", served.address)
    assert b"web" in Path(f"/proc/{served.process}/cmdline").read_bytes().split(b"\0")


@pytest.mark.req("ORDER-01")
def test_tags_stars_notes_and_the_archive_are_changed_on_the_page(served: Served, pond: Pond) -> None:
    here = served.link("A long walk")
    assert served.post(f"{here}/tag", {"tags": "Outdoors, #alps"}).status == 303
    assert served.post(f"{here}/star", {"on": "yes"}).status == 303
    assert served.post(f"{here}/note", {"text": "Bring <b>boots</b>"}).status == 303
    page = served.get(here)
    assert "#outdoors" in page.words and "Bring <b>boots</b>" in page.words and "★" in page.text
    found = served.get("/results?tag=%23alps").words
    assert "A long walk ★" in found and "Knots" not in found
    assert "A long walk" in served.get("/results?tag=starred").words
    assert served.get("/?tag=nonsense").status == 400 and served.post(f"{here}/tag", {"tags": "a b/;"}).status == 400
    assert served.post(f"{here}/tag", {"tags": "ghp_Ab3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0dF3hJ6"}).status == 400, "a secret"
    assert served.post(f"{here}/archive").status == 303
    assert "A long walk" not in served.get("/").words and "A long walk" in served.get("/?tag=archived").words
    for path, fields in (("archive", {"on": "no"}), ("tag", {"tags": "alps", "on": "no"}), ("note", {"remove": "1"})):
        assert served.post(f"{here}/{path}", fields).status == 303
    page = served.get(here)
    assert served.link("A long walk") == here and "#alps" not in page.words and "boots" not in page.words


@pytest.mark.req("TRUE-02")
def test_the_head_says_that_a_resumed_session_was_checked(served: Served, pond: Pond) -> None:
    checked = {"tool": "codex", "key": "k", "messages": 25, "held": 25, "at": "2026-11-18T22:00:00Z"}
    WorkspaceStore(str(pond.folder)).update("004-learn-knots", Change(extra={"first_turn": checked}))
    said = "the session in Codex still holds 25 of 25 after the first turn"
    assert said in served.get(f"/c/{store_key(str(pond.folder))}/004-learn-knots").words


@pytest.mark.req("COST-01")
def test_costs_are_part_of_the_activity_page(served: Served, pond: Pond, env: dict[str, str]) -> None:
    assert "No tokens are recorded yet." in served.activity().words
    usage = {"input_tokens": 1_000_000, "output_tokens": 100_000, "cache_creation_input_tokens": 0}
    said = Message(role="assistant", content="Like this.", model="claude-opus-4-5", usage=usage)
    WorkspaceStore(str(pond.folder)).append("004-learn-knots", said)
    total = cortext("cost", "--json", cwd=pond.folder, env=env).json["total"]["cost"]
    assert total == 7.5
    page = served.until("/see", lambda reply: "claude-opus-4-5" in reply.text).words
    assert f"${total:.2f} at list prices of 2026-11-05" in page
    assert "Most expensive" in page and page.count("$7.50") >= 5, (
        "the total, a model, a tool, a project, a conversation"
    )
    assert (
        "$7.50 for 1,100,000 tokens in 1 call" in served.get(f"/c/{store_key(str(pond.folder))}/004-learn-knots").words
    )


def test_a_workspace_that_is_made_later_is_shown(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cortext.model.query import Query
    from cortext.web import library as web

    monkeypatch.setattr(web, "LOCATED", 0.0)
    library = web.PageLibrary(lambda: None, str(tmp_path))
    try:
        assert library._located(library._lister).find(Query()).answer.hits == []
        assert cortext("init", "--ai", "claude", str(tmp_path / "new")).code == 0
        assert cortext("new", "plan", "Owls", cwd=tmp_path / "new").code == 0
        found = library._located(library._lister).find(Query()).answer.hits
        assert [hit.session.title for hit in found] == ["Owls"]
    finally:
        library.close()
