"""What the browser knows: the question, the answer, where the cursor is. No screen and no threads in here."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cortext.errors import CortextError
from cortext.faces.cortext.browse.work import Entry, Listed, Question, Wanted
from cortext.model.message import Message

FILTERS = ("tool", "type", "status")


class State:
    """One browser. `ask` and `read` hand a wish to the threads; what comes back goes through `take_…`."""

    def __init__(self, here: str, ask: Callable[[Question], None], read: Callable[[Wanted], None]) -> None:
        self.here, self._ask, self._read = here, ask, read
        self.question = Question()
        self.entries: list[Entry] = []
        self.choices: dict[str, list[str]] = {name: [] for name in FILTERS}
        self.cursor = 0
        self.note = "reading…"
        self.problem = ""
        self.messages: list[Message] = []
        self.previewed: Wanted | None = None
        self.scroll = 0
        self.top = -1  # the message at the top of the preview
        self.anchor = -1  # the message that the preview is to be moved to; -1: it stays
        self.unfolded = False
        self.choosing = False

    # ── asking ───────────────────────────────────────────────────────────────────────────────────────

    def typed(self, text: str) -> None:
        """The words changed."""
        self._asked(self.question._replace(text=text))

    def next_filter(self, name: str) -> None:
        """The next value of a filter; after the last, none."""
        values = ["", *self.choices[name]]
        now = getattr(self.question, name)
        place = values.index(now) if now in values else 0
        self._asked(self.question._replace(**{name: values[(place + 1) % len(values)]}))

    def only_here(self) -> None:
        """Only this workspace, or everything again."""
        if not self.here:
            self.problem = "this folder is no workspace"
            return
        self._asked(self.question._replace(root="" if self.question.root else self.here))

    def _asked(self, question: Question) -> None:
        self.problem = ""
        if question != self.question:
            self.question = question
            self.note = "searching…" if question.text.strip() else "reading…"
            self._ask(question)

    def begin(self, question: Question) -> None:
        """The first question."""
        self.question = question
        self._ask(question)

    # ── answers ──────────────────────────────────────────────────────────────────────────────────────

    def take_listed(self, question: Question, answer: Listed | Exception) -> None:
        """An answer came; one to an older question is too late."""
        if question != self.question:
            return
        self.note = ""
        if isinstance(answer, Exception):
            self.problem = _told(answer)
            return
        self.entries, self.cursor = answer.entries, 0
        self.choices = {"tool": answer.tools, "type": answer.types, "status": answer.statuses}
        self._look()

    def take_messages(self, wanted: Wanted, answer: Sequence[Message] | Exception) -> None:
        """The messages of a preview came."""
        if wanted != self.wanted:
            return
        if isinstance(answer, Exception):
            self.problem, self.messages = _told(answer), []
        else:
            self.messages = list(answer)
        self.previewed, self.scroll, self.anchor = wanted, 0, wanted.seq

    # ── moving ───────────────────────────────────────────────────────────────────────────────────────

    @property
    def chosen(self) -> Entry | None:
        """The session under the cursor."""
        return self.entries[self.cursor] if self.entries else None

    @property
    def wanted(self) -> Wanted | None:
        """What the preview should show."""
        if self.chosen is None:
            return None
        return Wanted(self.chosen.row, self.chosen.matches[0].seq if self.chosen.matches else -1)

    def move(self, by: int) -> None:
        """Up or down, staying on the list."""
        place = max(0, min(len(self.entries) - 1, self.cursor + by))
        if place != self.cursor:
            self.cursor = place
            self._look()

    def fold(self) -> None:
        """Unfold the tool calls, or fold them again; what is at the top stays there."""
        self.unfolded, self.anchor = not self.unfolded, self.top

    def show(self, lines: int, places: dict[int, int], height: int) -> int:
        """Where the preview begins, of so many lines with the messages at these places."""
        if self.anchor in places:
            self.scroll = places[self.anchor]
        self.scroll = max(0, min(self.scroll, lines - height))
        self.anchor = -1
        self.top = max((seq for seq, place in places.items() if place <= self.scroll), default=-1)
        return self.scroll

    def _look(self) -> None:
        wanted = self.wanted
        if wanted is None:
            self.messages, self.previewed = [], None
        elif wanted != self.previewed:
            self._read(wanted)


def _told(error: Exception) -> str:
    """An error on one line."""
    if isinstance(error, CortextError):
        return f"{error.message}{f' ({error.hint})' if error.hint else ''}"
    return f"{type(error).__name__}: {error}"
