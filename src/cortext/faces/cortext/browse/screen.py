"""The browser: type to search, read the conversation beside the list, press Enter to resume it.

The screen only draws the state. Searching and reading happen in threads; no key waits for them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import (
    AnyContainer,
    BufferControl,
    DynamicContainer,
    FormattedTextControl,
    HSplit,
    Layout,
    VSplit,
    Window,
)
from prompt_toolkit.layout.processors import BeforeInput
from prompt_toolkit.output import create_output
from prompt_toolkit.styles import Style

from cortext.faces.cortext.browse import drawing
from cortext.faces.cortext.browse.state import SWITCHED, BrowserState
from cortext.faces.cortext.browse.work import Newest, PreviewReader, ReadingPlace
from cortext.faces.terminal.table import cut
from cortext.model.message import Message
from cortext.model.query import AMONG, EQUAL, FILTERS, Query
from cortext.safety import terminal
from cortext.services.library.listing import Row
from cortext.services.library.sources import Answer, Match, SessionHit, meets, selection
from cortext.services.library.typed_search import TypedAnswer, TypedSearch, tag_choices
from cortext.wiring.stores import Stores

WIDE = 100  # columns from which the preview is beside the list
MOST_NOTE = 3  # lines about what occurs nowhere, above the list
SMALLEST = (40, 10)  # columns and rows below which nothing useful fits
_STYLE = Style.from_dict(
    {
        "chosen": "reverse", "name": "", "title": "bold", "dim": "#888888", "line": "#666666",
        "highlight": "bold ansiyellow",
        "user": "bold ansigreen", "assistant": "bold ansicyan", "tool": "bold ansiyellow", "system": "bold ansimagenta",
        "call": "ansiyellow", "failed": "ansired", "summary": "italic", "problem": "ansired", "on": "bold ansigreen",
    }
)  # fmt: skip
KEYS = (
    "↑↓ move  Enter resume  ^O in another tool  PgUp/PgDn scroll  Tab tool calls  "
    "^T tool  ^K type  ^S status  ^L tag  ^G here"
)
SHORT_KEYS = "Enter resume  ^O tool  Tab calls  ^T ^K ^S ^L ^G filter  PgDn scroll  Esc leave"
EMPTY = "Nothing is stored yet: `cortext import` imports what your AI tools have stored."
NO_MATCH = "No session matches. Shorten the query, or change the filters with the keys below."
Matches = Callable[[Sequence[Row], str], Sequence[Row]]  # the rows that a text matches


class Chosen(NamedTuple):
    """What the user chose: the session, and the AI tool if one was chosen."""

    row: Row
    tool: str


class Browser:
    """The screen and its keys."""

    def __init__(
        self,
        folder: str,
        here: str,
        tools: Sequence[str],
        later: Callable[[], None],
        *,
        find: Callable[[Query], TypedAnswer] | None = None,
        title: str = "cortext",
    ) -> None:
        self.tools, self._title = list(tools), title
        self._output = create_output()
        self._preview_key: tuple[object, ...] = ()
        self._preview_text: tuple[list[drawing.Line], dict[int, int]] = ([], {})
        finder = TypedSearch(
            lambda: Stores(folder, only_reads=True).listing(),
            lambda: Stores(folder, only_reads=True).search(),
            self._progress,
            later,
            any_project=True,
        )
        reader = PreviewReader(folder)
        self._find: Newest[Query, TypedAnswer] = Newest(find or finder.find, self._found)
        self._read: Newest[ReadingPlace, list[Message]] = Newest(reader.read, self._was_read)
        self.state = BrowserState(here, self._find.ask, self._read.ask)
        self.words = Buffer(multiline=False, on_text_changed=lambda buffer: self.state.typed(buffer.text))
        self.app: Application[Chosen | None] = Application(
            layout=self._layout(),
            key_bindings=self._keys(),
            style=_STYLE,
            full_screen=True,
            mouse_support=False,
            output=self._output,
        )
        # Esc begins many key sequences: do not make the user wait for the rest of one.
        self.app.ttimeoutlen = 0.05

    def run(self, query: Query) -> Chosen | None:
        """Show it until the user chooses a session (returned) or leaves (None)."""
        self.state.query = query
        self.words.set_document(Document(query.text), bypass_readonly=True)
        return self.app.run(pre_run=lambda: self.state.begin(query))

    # ── from the threads ─────────────────────────────────────────────────────────────────────────────

    def _on_screen_thread(self, work: Callable[[], None]) -> None:
        """Run this in the screen's own thread, and redraw."""

        def work_and_redraw() -> None:
            work()
            self.app.invalidate()

        loop = self.app.loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(work_and_redraw)

    def _found(self, query: Query, answer: TypedAnswer | Exception) -> None:
        self._on_screen_thread(lambda: self.state.take_answer(query, answer))

    def _was_read(self, wanted: ReadingPlace, answer: list[Message] | Exception) -> None:
        self._on_screen_thread(lambda: self.state.take_messages(wanted, answer))

    def _progress(self, label: str, done: int, total: int) -> None:
        if total >= 5_000:
            self._on_screen_thread(lambda: setattr(self.state, "note", f"{label.lower()} {done * 100 // total} %"))

    # ── keys ─────────────────────────────────────────────────────────────────────────────────────────

    def _keys(self) -> KeyBindings:
        keys, state = KeyBindings(), self.state
        choosing = Condition(lambda: state.choosing)

        def on(*names: str, do: Callable[[], None]) -> None:
            for name in names:
                keys.add(name, filter=~choosing, eager=name == "escape")(lambda event: do())

        on("up", "c-p", do=lambda: state.move(-1))
        on("down", "c-n", do=lambda: state.move(1))
        on("pageup", do=lambda: self._scroll(-1))
        on("pagedown", do=lambda: self._scroll(1))
        on("c-t", "f2", do=lambda: state.next_filter("tool"))
        on("c-k", "f3", do=lambda: state.next_filter("type"))
        on("c-s", "f4", do=lambda: state.next_filter("status"))
        on("c-g", "f5", do=state.only_here)
        on("c-l", "f6", do=lambda: state.next_filter("tag"))
        on("tab", do=state.fold)
        on("c-o", do=lambda: setattr(state, "choosing", state.chosen is not None))
        on("enter", do=lambda: self._choose(""))
        on("escape", "c-c", "c-d", do=lambda: self._leave(None))

        @keys.add("<any>", filter=choosing)
        def _(event: KeyPressEvent) -> None:
            state.choosing = False
            number = int(event.data) if event.data.isdecimal() else 0
            if 1 <= number <= len(self.tools):
                self._choose(self.tools[number - 1])

        @keys.add("escape", filter=choosing, eager=True)
        @keys.add("c-c", filter=choosing)
        def _(event: KeyPressEvent) -> None:
            state.choosing = False

        @keys.add("enter", filter=choosing)
        def _(event: KeyPressEvent) -> None:
            self._choose("")

        return keys

    def _choose(self, tool: str) -> None:
        if self.state.chosen is not None:
            self._leave(Chosen(self.state.chosen.session, tool))

    def _leave(self, chosen: Chosen | None) -> None:
        if not self.app.is_done:  # a key may be pressed twice before the screen is gone
            self.app.exit(result=chosen)

    def _scroll(self, pages: int) -> None:
        self.state.scroll = max(0, self.state.scroll + pages * max(1, self._sizes()[3] - 1))

    # ── drawing ──────────────────────────────────────────────────────────────────────────────────────

    def _sizes(self) -> tuple[int, int, int, int]:
        """Return columns and rows of the list, then columns and rows of the scrolling part of the preview."""
        rows, columns = self._output.get_size()
        body = rows - 4  # heading, words, rule, keys
        if columns >= WIDE:
            left = min(64, columns * 2 // 5)
            return left, body, columns - left - 2, max(1, body - 2)
        above = max(3, (body - 1) * 2 // 5)
        return columns, above, columns, max(1, body - above - 1 - 2)

    def _layout(self) -> Layout:
        def window(text: Callable[[], StyleAndTextTuples], **sizes: object) -> Window:
            return Window(FormattedTextControl(text), wrap_lines=False, **sizes)  # type: ignore[arg-type]

        words = Window(BufferControl(self.words, input_processors=[BeforeInput("find: ")]), height=1)
        rule = Window(char="─", height=1, style="class:line")
        beside = VSplit(
            [
                window(self._list, width=lambda: self._sizes()[0]),
                Window(char="│", width=1, style="class:line"),
                Window(width=1),
                window(self._preview),
            ]
        )
        below = HSplit(
            [
                window(self._list, height=lambda: self._sizes()[1]),
                Window(char="─", height=1, style="class:line"),
                window(self._preview),
            ]
        )
        full = HSplit(
            [
                window(self._heading, height=1),
                words,
                rule,
                DynamicContainer(lambda: beside if self._columns() >= WIDE else below),
                window(self._help, height=1),
            ]
        )
        small = HSplit([window(self._too_small), words])

        def shown() -> AnyContainer:
            rows, columns = self._output.get_size()
            return small if columns < SMALLEST[0] or rows < SMALLEST[1] else full

        return Layout(DynamicContainer(shown), focused_element=words)

    def _too_small(self) -> StyleAndTextTuples:
        text = f"The window is too small: at least {SMALLEST[0]}×{SMALLEST[1]} is needed. Esc leaves."
        return _joined([[("", line)] for line in drawing.wrap(text, self._columns())])

    def _columns(self) -> int:
        return self._output.get_size().columns

    def _heading(self) -> StyleAndTextTuples:
        query, state = self.state.query, self.state
        count = len(state.hits)
        note = state.note or f"{count} session{'s' * (count != 1)}"
        spans: StyleAndTextTuples = [("class:title", self._title), ("class:dim", f"  {terminal.line(note)}")]
        for name in SWITCHED:
            value = state.value(name)
            if name == "tag" and not value and not state.choices.get(name):
                continue  # nothing has a tag
            spans.append(("class:on" if value else "class:dim", f"  {name}: {terminal.line(value) or 'all'}"))
        for name, filter in FILTERS.items():
            value = query.filters.get(name, "")
            if value and name not in (*SWITCHED, "is"):
                value = os.path.basename(value) if filter.compare == AMONG else value
                spans.append(("class:on", f"  {name}: {terminal.line(value)}"))
        here = terminal.line(os.path.basename(query.roots[0])) if query.roots else "all"
        spans.append(("class:on" if query.roots else "class:dim", f"  workspace: {here}"))
        return spans

    def _list(self) -> StyleAndTextTuples:
        cells, height, _, _ = self._sizes()
        state, wide = self.state, self._columns() >= WIDE
        if not state.hits:
            if state.note:
                return []
            text = NO_MATCH if state.query != Query() else EMPTY
            return _joined([[("class:dim", line)] for line in drawing.wrap(f"{state.lacking} {text}".strip(), cells)])
        above = drawing.wrap(terminal.line(state.lacking), cells)[:MOST_NOTE] if state.lacking else []
        height = max(1, height - len(above))
        each = (3 if state.hits[0].matches else 2) if wide else 1
        fitting = max(1, height // each)
        first = max(0, min(state.cursor - fitting // 2, len(state.hits) - fitting))
        lines: list[drawing.Line] = [[("class:title", line)] for line in above]
        for index in range(first, min(first + fitting, len(state.hits))):
            is_chosen = index == state.cursor
            lines += drawing.entry_lines(state.hits[index], cells, chosen=is_chosen, wide=wide, name=state.names[index])
        return _joined(lines)

    def _preview(self) -> StyleAndTextTuples:
        _, _, cells, height = self._sizes()
        state = self.state
        if state.chosen is None:
            return []
        head = drawing.preview_head(state.chosen.session, cells)
        wanted = state.previewed
        if wanted is None or wanted != state.wanted:
            return _joined(head)
        lines, first_lines = self._wrapped(wanted, state.chosen.matches, cells)
        first = state.show(len(lines), first_lines, height)
        return _joined(head + lines[first : first + height])

    def _wrapped(
        self, wanted: ReadingPlace, matches: Sequence[Match], cells: int
    ) -> tuple[list[drawing.Line], dict[int, int]]:
        """Return the text of the preview, cached because every key redraws the screen."""
        key = (wanted, matches, cells, self.state.unfolded, self.state.messages)
        if self._preview_key != key:
            pattern = drawing.highlight_pattern(matches)
            self._preview_text = drawing.preview_lines(
                wanted, self.state.messages, cells, pattern, unfolded=self.state.unfolded
            )
            self._preview_key = key
        return self._preview_text

    def _help(self) -> StyleAndTextTuples:
        if self.state.choosing:
            names = "  ".join(f"{number} {name}" for number, name in enumerate(self.tools, 1))
            return [("class:on", cut(f"Continue in:  {names}   Enter: its own   Esc: back", self._columns()))]
        if self.state.problem:
            return [("class:problem", cut(terminal.line(self.state.problem), self._columns()))]
        return [("class:dim", cut(f"{KEYS}  Esc leave" if self._columns() >= 130 else SHORT_KEYS, self._columns()))]


def _joined(lines: Sequence[drawing.Line]) -> StyleAndTextTuples:
    spans: StyleAndTextTuples = []
    for line in lines:
        spans += [*line, ("", "\n")]
    return spans[:-1]


class MatchFinder:
    """Finds among a few sessions, by the words with which a session can be named."""

    def __init__(self, rows: Sequence[Row], matches: Matches) -> None:
        self._rows, self._matches = rows, matches
        names = [name for name, filter in FILTERS.items() if filter.is_offered and filter.compare == EQUAL]
        self._values = {name: sorted({getattr(row, FILTERS[name].column) for row in rows} - {""}) for name in names}
        self._values["tag"] = tag_choices([(row.tags, row.starred, row.archived) for row in rows])

    def find(self, query: Query) -> TypedAnswer:
        """Return the sessions that a query chooses, in their original order."""
        chosen = selection(query, lambda folder: [folder])
        conditions = [*chosen.where, *([("status", chosen.status)] if chosen.status else [])]
        rows = [row for row in self._rows if query.roots is None or row.root in query.roots]
        rows = [row for row in rows if all(meets(row, *condition) for condition in conditions)]
        rows = list(self._matches(rows, query.text)) if query.text.strip() else rows
        return TypedAnswer(Answer([SessionHit(row, [], 0.0) for row in rows]), self._values)


def pick(rows: Sequence[Row], matches: Matches, folder: str, here: str, tools: Sequence[str]) -> Chosen | None:
    """Return the session that the user chose, and the AI tool if one was chosen; None if the user left."""
    browser = Browser(
        folder, here, tools, lambda: None, find=MatchFinder(rows, matches).find, title="Choose a conversation"
    )
    return browser.run(Query())
