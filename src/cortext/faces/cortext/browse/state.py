"""The state of the browser: the query, the answer, the cursor. It knows neither the screen nor the threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from cortext.errors import CortextError
from cortext.faces.cortext.browse.work import ReadingPlace
from cortext.model.message import Message
from cortext.model.query import Query
from cortext.services.library.search import note_of
from cortext.services.library.sources import SessionHit
from cortext.services.library.typed_search import TypedAnswer, order_filters, order_text

SWITCHED = ("tool", "type", "status", "tag")  # by keys


class BrowserState:
    """The state of one browser. `ask` and `read` send requests to the threads; results come back through `take_…`."""

    def __init__(self, here: str, ask: Callable[[Query], None], read: Callable[[ReadingPlace], None]) -> None:
        self.here, self._ask, self._read = here, ask, read
        self.query = Query()
        self.hits: Sequence[SessionHit] = ()
        self.names: Sequence[str] = ()  # of the hits
        self.lacking = ""  # what of the query occurs nowhere
        self.choices: Mapping[str, Sequence[str]] = {}
        self.cursor = 0
        self.note = "reading…"
        self.problem = ""
        self.messages: list[Message] = []
        self.previewed: ReadingPlace | None = None
        self.scroll = 0
        self.top = -1  # the message at the top of the preview
        self.anchor = -1  # the message that the preview is to be moved to; -1: it stays
        self.unfolded = False
        self.choosing = False

    # ── asking ───────────────────────────────────────────────────────────────────────────────────────

    def typed(self, text: str) -> None:
        """Search for the text that was typed."""
        self._ask_if_new(replace(self.query, text=text))

    def next_filter(self, name: str) -> None:
        """Switch to the next value of a filter; after the last, to none."""
        values = ["", *self.choices.get(name, ())]
        current = self.value(name)
        index = values.index(current) if current in values else 0
        following = values[(index + 1) % len(values)]
        given = order_filters(following) if name == "tag" else {name: following}
        filters = {name: value for name, value in {**self.query.filters, **given}.items() if value}
        self._ask_if_new(replace(self.query, filters=filters))

    def value(self, name: str) -> str:
        """Return the value of a filter as the screen shows it; that by tag has stars and the archive in it."""
        return order_text(self.query.filters) if name == "tag" else self.query.filters.get(name, "")

    def only_here(self) -> None:
        """Switch between this workspace and everything."""
        if not self.here:
            self.problem = "this folder is not a workspace"
            return
        self._ask_if_new(replace(self.query, roots=None if self.query.roots else [self.here]))

    def _ask_if_new(self, query: Query) -> None:
        self.problem = ""
        if query != self.query:
            self.query = query
            self.note = "searching…" if query.text.strip() else "reading…"
            self._ask(query)

    def begin(self, query: Query) -> None:
        """Ask the first query."""
        self.query = query
        self._ask(query)

    # ── answers ──────────────────────────────────────────────────────────────────────────────────────

    def take_answer(self, query: Query, answer: TypedAnswer | Exception) -> None:
        """Store an answer; one to an older query is ignored."""
        if query != self.query:
            return
        self.note = ""
        if isinstance(answer, Exception):
            self.problem = _on_one_line(answer)
            return
        self.problem = answer.answer.incomplete or self.problem
        self.hits, self.names, self.cursor = answer.answer.hits, answer.answer.names, 0
        self.lacking = note_of(answer.answer, query.text) if query.text.strip() else ""
        self.choices = answer.values
        self._read_chosen()

    def take_messages(self, wanted: ReadingPlace, answer: Sequence[Message] | Exception) -> None:
        """Store the messages of a preview; those of another session are ignored."""
        if wanted != self.wanted:
            return
        if isinstance(answer, Exception):
            self.problem, self.messages = _on_one_line(answer), []
        else:
            self.messages = list(answer)
        self.previewed, self.scroll, self.anchor = wanted, 0, wanted.seq

    # ── moving ───────────────────────────────────────────────────────────────────────────────────────

    @property
    def chosen(self) -> SessionHit | None:
        """The session under the cursor; None if the list is empty."""
        return self.hits[self.cursor] if self.hits else None

    @property
    def wanted(self) -> ReadingPlace | None:
        """What the preview should show."""
        if self.chosen is None:
            return None
        return ReadingPlace(self.chosen.session, self.chosen.matches[0].seq if self.chosen.matches else -1)

    def move(self, by: int) -> None:
        """Move the cursor, within the list."""
        target = max(0, min(len(self.hits) - 1, self.cursor + by))
        if target != self.cursor:
            self.cursor = target
            self._read_chosen()

    def fold(self) -> None:
        """Unfold or fold the tool calls; the message at the top stays there."""
        self.unfolded, self.anchor = not self.unfolded, self.top

    def show(self, lines: int, first_lines: dict[int, int], height: int) -> int:
        """Return the line at which the preview starts; `first_lines` maps message numbers to lines."""
        if self.anchor in first_lines:
            self.scroll = first_lines[self.anchor]
        self.scroll = max(0, min(self.scroll, lines - height))
        self.anchor = -1
        self.top = max((seq for seq, line in first_lines.items() if line <= self.scroll), default=-1)
        return self.scroll

    def _read_chosen(self) -> None:
        wanted = self.wanted
        if wanted is None:
            self.messages, self.previewed = [], None
        elif wanted != self.previewed:
            self._read(wanted)


def _on_one_line(error: Exception) -> str:
    """Return an error as one line."""
    if isinstance(error, CortextError):
        return f"{error.message}{f' ({error.hint})' if error.hint else ''}"
    return f"{type(error).__name__}: {error}"
