"""`cortext browse` in a real terminal: the screen at two sizes, keys, filters, and Enter."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cortext.faces.cortext.browse import drawing as draw
from cortext.faces.cortext.browse.work import Newest, ReadingPlace
from cortext.faces.terminal.table import width
from cortext.model.message import Message
from cortext.services.library.listing import Row
from cortext.services.library.sources import Match, SessionHit
from cortext.services.library.typed_search import typed
from cortext.testing.table import every_row
from tests.faces.pond import BOAT, HERONS, Pond, make_pond
from tests.support.cli import SCRIPTS, cortext
from tests.support.desk import Desk
from tests.support.model_server import ModelServer
from tests.support.screen import Screen
from tests.support.waiting import wait_for_exit_code, wait_until

pytestmark = pytest.mark.req("LOOK-04")

TIMEOUT = 30.0  # seconds; a tenth of a second is typical

SCREENS = Path(__file__).parent / "screens"
BROWSE = [str(SCRIPTS / "cortext"), "browse"]


class Terminal(Screen):
    """A real terminal that runs the browser."""

    def __init__(self, pond: Pond, folder: Path, size: str, env: dict[str, str] | None = None) -> None:
        # A shell records the exit code, because tmux may miss it.
        self._ended = folder / "ended"
        command = ["/bin/sh", "-c", '"$@"; echo $? >"$0"', str(self._ended), *BROWSE]
        super().__init__(folder, command, env or _without_tools(pond, folder), pond.folder, size)

    def wait_for(self, *words: str, timeout: float = TIMEOUT) -> str:
        return super().wait_for(*words, timeout=timeout)

    def picture(self) -> str:
        """Return the screen without trailing spaces."""
        return "\n".join(line.rstrip() for line in self.text().splitlines()).strip("\n") + "\n"

    def resize(self, columns: int, rows: int) -> None:
        """Resize the window."""
        self._tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def wait_for_end(self) -> int:
        """Wait until the program has exited; return its exit code."""
        return wait_for_exit_code(self._ended, TIMEOUT, self.text)


@pytest.fixture(scope="module")
def pond(tmp_path_factory: pytest.TempPathFactory) -> Pond:
    return make_pond(tmp_path_factory.mktemp("browse"))


@pytest.fixture
def screen(pond: Pond, tmp_path: Path) -> Iterator[Terminal]:
    """Open a terminal of 80×24."""
    with Terminal(pond, tmp_path, "80x24") as opened:
        opened.wait_for("5 sessions", "Teach me the bowline")
        yield opened


def _without_tools(pond: Pond, folder: Path) -> dict[str, str]:
    """Return the pond's environment without any AI program on PATH."""
    (folder / "no-programs").mkdir()
    return {**pond.env, "PATH": str(folder / "no-programs")}


def _matches_recorded_screen(screen: Terminal, name: str) -> None:
    """Compare the screen with the one recorded in screens/; PYTEST_NEW_SCREENS=1 records it again."""
    kept = SCREENS / f"{name}.txt"
    shown = screen.picture()
    if os.environ.get("PYTEST_NEW_SCREENS"):
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(shown, encoding="utf-8")
    expected = kept.read_text(encoding="utf-8")
    if shown != expected:  # the screen may be half drawn
        wait_until(lambda: screen.picture() == expected, 10, lambda: f"as recorded in {kept}\n{screen.picture()}")


def test_the_newest_sessions_at_80_by_24(screen: Terminal) -> None:
    _matches_recorded_screen(screen, "80x24-newest")
    screen.press("Down", "Down")
    screen.wait_for("The leaking boat", "The service key is", "completed · 2026-04-11")
    screen.press("Escape", "Escape", "Enter")  # extra keys while it starts
    assert screen.wait_for_end() == 0


def test_typing_searches_at_once_and_a_key_expands_at_200_by_60(pond: Pond, tmp_path: Path) -> None:
    with Terminal(pond, tmp_path, "200x60") as screen:
        screen.wait_for("5 sessions")
        screen.type("sevente")  # an incomplete word
        screen.wait_for("1 session ", "Seventeen herons at 06:20.")
        screen.type("en")
        screen.wait_for("find: seventeen", "1 session ", "Counting herons.")
        _matches_recorded_screen(screen, "200x60-seventeen")
        assert "06:10 11" not in screen.text(), "a tool result is collapsed"
        screen.press("Tab")
        screen.wait_for("▾ Bash", "06:10 11", '"command": "tail -3 heron.log"')
        screen.press("Tab")
        screen.wait_for("▸ Bash", "(3 lines)")
        screen.resize(70, 20)  # the preview moves below the list
        screen.wait_for("Herons at the pond plan · claude · 2026-03-02", "Enter resume  ^O tool")
        screen.press("C-c")
        assert screen.wait_for_end() == 0


@pytest.mark.req("FIND-11")
def test_what_occurs_nowhere_is_said_above_the_list(screen: Terminal) -> None:
    screen.type("countHeronsAtPond")
    screen.wait_for('"countHeronsAtPond" occurs nowhere. The nearest:', "Herons at the pond")
    screen.press(*["BSpace"] * len("HeronsAtPond"))
    screen.wait_for("find: count", "Herons at the pond")
    wait_until(lambda: "occurs nowhere" not in screen.text(), TIMEOUT, screen.text)


def test_keys_filter_by_tool_type_status_and_workspace(screen: Terminal) -> None:
    screen.press("C-t")
    screen.wait_for("2 sessions  tool: claude")
    screen.press("C-k", "C-k", "C-k", "C-k")
    screen.wait_for("tool: claude  type: plan", "1 session")
    screen.press("F2", "F2", "F2")
    screen.wait_for("tool: all  type: plan", "1 session")
    screen.press("F3")
    screen.wait_for("type: all", "5 sessions")
    screen.press("C-s", "C-s")
    screen.wait_for("1 session", "status: completed", "The leaking boat")
    screen.press("C-s", "C-s")
    screen.press("C-g")
    screen.wait_for("4 sessions", "workspace: pond")
    screen.type("herons")
    shown = screen.wait_for("Herons at the pond", "find: herons")
    assert "The aquarium" not in shown
    screen.type(" zzzzqqqq xxxxjjjj")
    screen.press("C-t", "C-t", "C-t")
    screen.wait_for("tool: opencode")


def test_enter_starts_the_tool_or_says_why_not(screen: Terminal) -> None:
    screen.type("herons dawn")
    screen.wait_for("› Herons at the pond")
    screen.press("C-o")
    screen.wait_for("Continue in: 1 claude 2 gemini 3 opencode 4 codex")
    screen.press("Escape")
    screen.wait_for("Esc leave")
    screen.press("C-o")
    screen.wait_for("Continue in:")
    screen.type("2")
    screen.wait_for("Gemini CLI is not installed here", "the conversation is unchanged", "--print")
    assert screen.wait_for_end() == 1


def test_a_window_that_is_too_small_says_so_and_can_be_closed(pond: Pond, tmp_path: Path) -> None:
    with Terminal(pond, tmp_path, "30x8") as screen:
        screen.wait_for("too small: at least 40×10 is needed")
        screen.press("Escape")
        assert screen.wait_for_end() == 0


def test_without_sessions_it_says_how_to_start(tmp_path: Path) -> None:
    nowhere = Pond(tmp_path / "home", tmp_path / "nowhere")
    for folder in nowhere:
        folder.mkdir()
    with Terminal(nowhere, tmp_path, "80x24") as screen:
        screen.wait_for("0 sessions", "Nothing is stored yet", "cortext import")
        screen.press("Enter")
        screen.type("words")
        screen.wait_for("No session matches")
        screen.press("C-g")
        screen.wait_for("not a workspace")
        screen.press("Escape")
        assert screen.wait_for_end() == 0


def test_without_a_terminal_it_suggests_other_commands(pond: Pond) -> None:
    done = cortext("browse", cwd=pond.folder, env=pond.env)
    assert done.code == 2
    assert "cortext search" in done.err


@pytest.mark.real_tool
@pytest.mark.req("SESS-004a", "SESS-004d")
def test_enter_opens_the_real_tools_own_screen(tmp_path: Path) -> None:
    with ModelServer() as server:
        desk = Desk(tmp_path, server)
        (tmp_path / "made").mkdir()
        pond = make_pond(tmp_path / "made")
        desk.tools["codex"].trust(pond.folder)
        server.push("The heron answers: picked up where we stood.")
        with Terminal(pond, tmp_path, "120x50", desk.env) as screen:
            screen.wait_for("4 sessions")  # the pond's home store is not in this HOME
            screen.type("seventeen")
            screen.wait_for("1 session ", "› Herons at the pond")
            screen.press("C-o")
            screen.wait_for("Continue in:")
            screen.type("4")
            server.wait_for(lambda request: "Seventeen herons at 06:20." in str(request.body), 90)
            screen.wait_for("picked up where we stood")


# ── units ────────────────────────────────────────────────────────────────────────────────────────


def _row(**fields: object) -> Row:
    values = dict.fromkeys(Row._fields, "") | {"message_count": 4, "token_count": 9, "damage": 0, "straight": 1}
    return Row(**{**values, "id": "x", "kind": "workspace", **fields})  # type: ignore[arg-type]


def test_the_newest_request_wins_and_asking_never_blocks() -> None:
    going, go_on, finished = threading.Event(), threading.Event(), threading.Event()
    done: list[tuple[str, object]] = []

    def work(request: str) -> str:
        if request == "first":
            going.set()
            assert go_on.wait(30)
        if request == "bad":
            raise ValueError("no")
        return request.upper()

    def take(request: str, result: object) -> None:
        done.append((request, result))
        finished.set()

    newest: Newest[str, str] = Newest(work, take)
    newest.ask("first")
    assert going.wait(30)
    for request in ("second", "third", "bad", "fourth"):
        newest.ask(request)  # each returns although the first is still running
    assert done == []
    go_on.set()
    assert finished.wait(30)
    assert done == [("fourth", "FOURTH")]
    finished.clear()
    newest.ask("bad")
    assert finished.wait(30)
    assert isinstance(done[1][1], ValueError)


@pytest.mark.req("SAFE-01")
@every_row("cells", [10, 33, 80, 131])
@every_row("unfolded", [False, True])
def test_any_text_is_shown_safely_and_fits(cells: int, unfolded: bool) -> None:
    words = ["\x1b[31m", "広い文字はふたつのセルを取る" * 9, "a\tb\r\nc", "x" * 500, "🦩 " * 40, ""]
    messages = [replace(message, seq=index) for index, message in enumerate([*BOAT, *HERONS])]
    for text in words:
        messages.append(Message(role="user\x1b[2J", content=text, timestamp="\x1b]0;t\x07", seq=99))
    row = _row(title="\x1b[2Jtitle " + "長い" * 60, summary="\u202esummary\n\x07")
    match = Match("m", 1, "user", "", "The \x1bboat leaks", [(4, 9), (10, 15)], 1.0, "", "")
    pattern = draw.highlight_pattern([match])
    lines, first_lines = draw.preview_lines(ReadingPlace(row, 1), messages, cells, pattern, unfolded=unfolded)
    entry = draw.entry_lines(SessionHit(row, [match], 1.0), max(cells, 60), chosen=True, wide=True)
    for line in [*lines, *draw.preview_head(row, cells)]:
        text = "".join(piece for _, piece in line)
        assert text.isprintable()
        assert width(text) <= cells
    for line in entry:
        assert width("".join(piece for _, piece in line)) <= max(cells, 60)
    assert any(("class:highlight", "leaks") in line for line in lines)
    assert first_lines[0] < first_lines[1] < first_lines[2] < len(lines)


@given(st.text(alphabet="ab  広xyz🦩", max_size=90), st.integers(2, 30))
def test_wrapping_keeps_every_word_and_the_width(text: str, cells: int) -> None:
    lines = draw.wrap(text, cells)
    assert all(width(line) <= cells for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


def test_an_incomplete_word_is_a_prefix() -> None:
    assert typed("retry bud") == "retry bud*"
    assert typed("retry ") == "retry "
    assert typed('"retry bud') == '"retry bud'
    assert typed("見つ") == "見つ"
    assert typed("") == ""
