"""The digest: what a successor needs of a conversation, in a few labelled lines and within a number of tokens.

The last ask and what was done about it come first, then what is open, the task, what holds, the files, the commands and
the names. Each section has a share of the tokens; what one does not need is left for those after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from cortext.model import tokens
from cortext.model.message import Message
from cortext.model.wording import amount, clip, clip_tokens, listed
from cortext.services.digest import asks
from cortext.services.digest.asks import UserTurn
from cortext.services.digest.calls import READ, CommandRun, ToolCall, calls_in, runs, stands_in
from cortext.services.digest.files_and_names import (
    FileTally,
    Identifier,
    common_root,
    endings,
    mentioned,
    names_in,
    ranked,
    relative,
    used_files,
)

# The largest share of the tokens that a section takes.
ASK, DONE, OPEN, TASK, EARLIER, STANDING, DECIDED = 0.25, 0.12, 0.08, 0.08, 0.06, 0.08, 0.08
FILES, SEEN, COMMANDS = 0.25, 0.10, 0.12
NAMES_LEFT = 0.25  # of the tokens, kept free by all other sections for the names

_COMMANDS = "Commands, the likeliest first:"
_NAMES = "Other names: "
_QUOTED_SHORT = 160  # characters of an ask or an answer that is only mentioned
_MENTIONED = 12  # files that are listed as changed since the last ask
_MARGIN = 8  # tokens for line ends and for rounding


class _Page:
    """The lines so far, and the tokens that are left for more."""

    def __init__(self, budget: int, known: str) -> None:
        self.budget, self._left = budget, budget - _MARGIN
        self.known = " ".join(known.split())
        self.lines: list[str] = []

    @property
    def left(self) -> int:
        """The tokens that are left."""
        return self._left

    def room(self, share: float) -> int:
        """Return the tokens that a section may take."""
        return min(int(self.budget * share), self._left)

    def add(self, line: str) -> None:
        """Add a line."""
        self.lines.append(line)
        self._left -= tokens.estimate(line) + 1

    def section(self, label: str, entries: Iterable[str], room: int, *, again: bool = False) -> None:
        """Add the entries that fit below a label; those that the reader has are left out, unless `again`."""
        heading = f"{label}:"
        room -= tokens.estimate(heading) + 1
        lines = []
        for entry in entries:
            line = f"- {entry}"
            cost = tokens.estimate(line) + 1
            if cost > room:
                break
            if again or not self.has(entry):
                lines.append(line)
                room -= cost
        if lines:
            for line in (heading, *lines):
                self.add(line)

    def has(self, text: str) -> bool:
        """Whether the reader has this text already, here or elsewhere."""
        text = " ".join(text.split())
        return any(_contains(place, text) for place in (self.known, *self.lines))


def _contains(place: str, text: str) -> bool:
    """Whether a place has this text, not only as part of a longer name: `a.py` is neither in `data.py` nor `a.pyi`."""
    start = place.find(text)
    while start >= 0 and _is_part(place, start, start + len(text)):
        start = place.find(text, start + 1)
    return start >= 0


def _is_part(place: str, start: int, end: int) -> bool:
    before, after = place[max(0, start - 1) : start], place[end : end + 2]
    if before and (before.isalnum() or before in "_-./"):
        return True
    # "a.py." may end a sentence; "a.py.orig" is another file.
    return after[:1].isalnum() or after[:1] in ("_", "-", "/") or (after[:1] == "." and after[1:].isalnum())


def digest(messages: Sequence[Message], *, budget: int, first: Sequence[Message] = (), known: str = "") -> str:
    """Return the facts of these messages in at most `budget` tokens; empty if there are none.

    `first` are earlier messages in which standing instructions are looked for. What is in the text `known`, which the
    reader has besides, is not repeated, except the last ask.
    """
    page = _Page(budget, known)
    calls = calls_in(messages)
    turns = asks.turns(messages)
    files = used_files(calls)
    root = common_root([file.path for file in files])
    if turns:
        _last_ask(page, messages, turns[-1])
        _done(page, messages, turns[-1], files, [call for call in calls if call.at >= turns[-1].start], root)
    left = [*asks.open_steps(calls), *filter(None, [asks.open_question(messages)])]
    page.section("Still open", left, page.room(OPEN), again=True)
    _task(page, turns, calls)
    page.section("Standing instructions of the user", asks.standing([*first, *messages]), page.room(STANDING))
    page.section("Decided", asks.decisions(messages, calls), page.room(DECIDED))
    _facts(page, messages, calls, files, root)
    return clip_tokens("\n".join(page.lines), budget)


def _last_ask(page: _Page, messages: Sequence[Message], turn: UserTurn) -> None:
    answers = asks.answered_before(messages, turn) if turn.is_short else ""
    label = "The user asked last: "
    reply = f' (in answer to "{clip(answers, _QUOTED_SHORT)}")' if answers else ""
    room = max(page.room(ASK) - tokens.estimate(label + reply), 16)
    page.add(label + clip_tokens(" ".join(turn.ask.split()), room) + reply)


def _done(
    page: _Page,
    messages: Sequence[Message],
    turn: UserTurn,
    files: Sequence[FileTally],
    calls: Sequence[ToolCall],
    root: str,
) -> None:
    changed = [relative(file.path, root) for file in files if file.state != READ and file.at >= turn.start]
    facts = []
    if changed:
        facts.append(f"changed {listed(changed, _MENTIONED)}")
    ran = runs(calls, len(messages))
    if ran:
        newest = max(ran, key=lambda run: run.at)
        count = sum(run.times for run in ran)
        facts.append(f"ran {amount(count, 'command')}, the last {_shown_run(newest)}")
    words = asks.last_words(messages, turn)
    room = page.room(DONE)
    line = clip_tokens(f"Done about it: {'; '.join(facts) or ('answered' if words else 'nothing yet')}", room)
    if line:
        page.add(line)
    room -= tokens.estimate(line) + 8
    if words and room > 16 and not page.has(words[:_QUOTED_SHORT]):
        page.add(f"The model said last: {clip_tokens(' '.join(words.split()), room)}")


def _task(page: _Page, turns: Sequence[UserTurn], calls: Sequence[ToolCall]) -> None:
    """Add the ask that the current task began with, and those between it and the last one."""
    current = asks.task(turns, calls)
    if len(current) < 2:
        return
    goal = clip_tokens(" ".join(current[0].ask.split()), page.room(TASK) - 8)
    if goal and not page.has(goal):
        page.add(f"This task began with: {goal}")
    between = [clip(turn.ask, _QUOTED_SHORT) for turn in reversed(current[1:-1]) if not turn.is_short]
    page.section("Asked in between, the newest first", between, page.room(EARLIER))


def _facts(
    page: _Page, messages: Sequence[Message], calls: Sequence[ToolCall], files: Sequence[FileTally], root: str
) -> None:
    """Add the files with the names seen in them, those that were only named, the commands, and the other names."""
    room = page.left - int(page.budget * NAMES_LEFT)
    lines = {file.path: f"- {relative(file.path, root)} ({file.state})" for file in files}
    unread = [file.path for file in files if file.state != READ or not page.has(relative(file.path, root))]
    shown = _fitting(unread, min(room, page.room(FILES)), lines.__getitem__)
    room -= sum(tokens.estimate(lines[path]) + 1 for path in shown)
    used = {ending for file in files for ending in endings(file.path)}
    named = [path for path in mentioned(messages, calls, root) if path not in used and not page.has(path)]
    seen = _fitting(named, min(room, page.room(SEEN)))
    room -= sum(tokens.estimate(path) + 1 for path in seen)
    ran = [_shown_run(run, times=True) for run in runs(calls, len(messages)) if not page.has(run.line)]
    commands = [f"- {line}" for line in _fitting(ran, min(room, page.room(COMMANDS)))]
    files_heading = f"Files, the last used first{f' (in {root})' if root else ''}:"
    also_named = f"Also named: {', '.join(seen)}"
    taken = (files_heading, *(lines[path] for path in shown), also_named, _COMMANDS, *commands, _NAMES)
    left = page.left - sum(tokens.estimate(line) + 2 for line in taken)
    names = _likeliest(ranked(messages, calls), left, names_in("\n".join((page.known, *taken))))
    in_files: dict[str, list[str]] = {path: [] for path in shown}
    others: list[str] = []
    for name in names:
        in_files.get(name.path, others).append(name.word)
    above = names_in("\n".join(page.lines))
    others = [word for word in others if word not in above]
    if shown:
        page.add(files_heading)
        for path, words in in_files.items():
            page.add(f"{lines[path]}: {', '.join(words)}" if words else lines[path])
    if seen:
        page.add(also_named)
    if commands:
        for line in (_COMMANDS, *commands):
            page.add(line)
    if others:
        page.add(_NAMES + ", ".join(others))


def _fitting(entries: Sequence[str], room: int, shown: Callable[[str], str] = str) -> list[str]:
    """Return the first entries that fit as they are shown."""
    fitting = []
    for entry in entries:
        room -= tokens.estimate(shown(entry)) + 1
        if room < 0:
            break
        fitting.append(entry)
    return fitting


def _likeliest(names: Sequence[Identifier], room: int, known: set[str]) -> list[Identifier]:
    """Return the likeliest names that fit and that the reader does not have, each a whole word of a text."""
    chosen = []
    left = 4 * room
    for name in names:
        if name.word in known or not stands_in(name.text, name.word):
            continue
        left -= (len(name.word) if name.word.isascii() else 4 * len(name.word)) + 2
        if left < 0:
            break
        chosen.append(name)
    return chosen


def _shown_run(run: CommandRun, *, times: bool = False) -> str:
    again = f" ({run.times} times)" if times and run.times > 1 else ""
    return f"`{run.line}` {run.status}".rstrip() + again
