"""The results of the matrix of pairs (`tests.tools.matrix`), and the page that shows them: docs/pairs.md."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
from tests.support.ai_programs import PROGRAMS
from tests.support.desk import MORE_NAMES, NAMES
from tests.support.pairs import Outcome
from tests.tools.matrix_data import proven

from cortext.services.resume.receipt import NOTES
from cortext.services.workspace.installed_tools import ProvenPairs, code_of, when_run
from cortext.tools import registry

_STATE = "The pairs were run "
RUNNERS = NAMES | MORE_NAMES
FRESH, USED, ITSELF = "fresh", "used", "own"
HOMES = {FRESH: "In a new home folder", USED: "Where the target was used before, with another provider"}
INTRODUCTION = """# Pairs of tools

A conversation was held in the program of each row and resumed in the program of each column, as a user does it:
`cortext resume ID --ai NAME` in a terminal (tmux), in the project, with the program's own screen and nothing added to
its command line. It has a paste of 30 kB, two tool calls at once, a call that fails, a message that begins with `/`, an
`@file` and Unicode. When the program had answered the first prompt (Kimi Code, Continue and Aider take none: there the
user speaks first), one more message was typed on its screen.

- The receipt on the terminal is the one that the requests are compared with.
- What the model received at the start and with the typed message: every text once, in its order and role, the number of
  messages and of tool calls, each call with a result of its own and the output that was recorded for it; of a program
  without structured calls, the calls and results as labelled text.
- The program's own files, before the start and after its window was closed: every other session holds what it held, and
  the resumed one at least what it was given.
- What was said on the screen was captured again, and nothing else.

A conversation of Aider is shorter: it has no tool calls, and takes a message that begins with `/` for a command of its
own.

`python -m tests.tools.matrix` repeats it with the real programs, and writes this page. The model is a server on the
same machine that records its requests. Each result is kept with a hash of the code that it proves: the adapters of both
tools, and what all of them share.
"""
OWN_SESSIONS = """The same in the program that the conversation was held in, where it was held: it opens its own
session, and its file may only grow. A program that takes no first prompt gets no context block there, and the receipt
says so.

*new*: the program would not continue it, so a new session was written, and the receipt says why. That is gptme, which
stays without a terminal in a session that was held without one, as here (`gptme --non-interactive`)."""
DELIVERY = """The model gets the text of the conversation's command, then the context block, then the messages. In a new
session the block is its first message, and the first prompt has three lines that say to go on; so the last exchanges
are right above them. In a session of the program's own the messages come first: there the block is the first prompt, of
at most ten lines, and the command's text is given again only if the session does not contain it. Nothing is written
into the project for it."""
_WITH_BLOCK, _AT_THE_TOP, _SILENTLY = "with the block", "shown at the beginning", "sent, not shown"
_NEITHER = "in its own session neither"
_TEXT_SHOWN = "in its own session, a text that is new there is in the first prompt"
# How the text of the command arrives, where the block of a new session is, and what remains of both on the screen.
DELIVERED = {
    "claude": ("system prompt: append-system-prompt-file", _SILENTLY, ""),
    "gemini": (
        f"{_WITH_BLOCK}; in its own session the first prompt names its file, whose text follows the block",
        _SILENTLY,
        "when it opens that session again, it may show both at the beginning; a file that git ignores is shown, too",
    ),
    "opencode": ("system prompt: `instructions` in OPENCODE_CONFIG_CONTENT", _SILENTLY, ""),
    "codex": (f"{_WITH_BLOCK}: `developer_instructions` would come after the messages", _SILENTLY, _TEXT_SHOWN),
    "copilot": (f"{_WITH_BLOCK}: COPILOT_CUSTOM_INSTRUCTIONS_DIRS did not reach the model", _AT_THE_TOP, _TEXT_SHOWN),
    "qwen": ("system prompt: append-system-prompt", _AT_THE_TOP, ""),
    "pi": ("system prompt: append-system-prompt", _AT_THE_TOP, ""),
    "kimi": (_WITH_BLOCK, _AT_THE_TOP, _NEITHER),
    "continue": (f"{_WITH_BLOCK}: a rule is sent twice", _AT_THE_TOP, _NEITHER),
    "vibe": (_WITH_BLOCK, _AT_THE_TOP, _TEXT_SHOWN),
    "gptme": (_WITH_BLOCK, _AT_THE_TOP, _TEXT_SHOWN),
    "aider": (
        _WITH_BLOCK,
        "not shown",
        f"{_NEITHER}; it shows no history, so cortext prints the last two exchanges before it starts",
    ),
}
LEGEND = """Each cell: messages of all messages, tool calls of all tool calls, by the receipt and by the request.

- ✓ the model received what the receipt says
- ✗ it did not (see [What did not pass](#what-did-not-pass))
- † something was changed or left out on the way, and the receipt says so (see [What was changed](#what-was-changed))
- ‡ the program of the row itself had lost something before (see [What a program lost](#what-a-program-lost))
- *older*: not run again yet since that code has changed, or since the program was started without a terminal
- – not run"""

# Why a pair does not pass, where that is known.
REASONS: dict[tuple[str, str, str], str] = {}


class Row(msgspec.Struct, kw_only=True):
    """The result for one pair and one kind of home."""

    source: str
    target: str
    home: str
    versions: tuple[str, ...]
    date: str
    code: str = ""  # the hash of the code that it proves
    launched: bool = False  # in a terminal, by `cortext resume`; results of before were not
    seconds: float = 0.0
    outcome: Outcome | None = None
    error: str = ""
    is_refused: bool = False  # the program would not continue its own session, and got a new one

    @property
    def passed(self) -> bool:
        """Whether the conversation arrived as the receipt says."""
        return self.outcome is not None and not self.outcome.problems

    @property
    def is_older(self) -> bool:
        """Whether the code has changed since, or it was not started as a user does it."""
        return not self.launched or self.code != code_of(self.source, self.target)

    @property
    def line(self) -> str:
        """The result in one line."""
        outcome = "passed" if self.passed else self.problem
        return f"{self.source:9} → {self.target:9} {self.home:6} {self.seconds:6.1f} s  {outcome[:400]}"

    @property
    def problem(self) -> str:
        """Why it did not pass, in one line; empty if it did."""
        problems = [self.error] if self.error else self.outcome.problems if self.outcome else []
        return " ".join("; ".join(problems).split())


def versions(*names: str) -> tuple[str, ...]:
    """Return the versions of programs that the tests use."""
    return tuple(PROGRAMS[RUNNERS[name]].version for name in names)


def state(pairs: Mapping[str, ProvenPairs]) -> str:
    """Return the paragraph that says when the results were obtained, and whether the code has changed since."""
    return f"{_STATE}{when_run(pairs)}." if pairs else f"{_STATE}with older code only."


def with_state(text: str, pairs: Mapping[str, ProvenPairs]) -> str:
    """Return the page with that paragraph as it is now: the results themselves are kept in no repository."""
    return re.sub(rf"^{_STATE}.*$", lambda _: state(pairs), text, count=1, flags=re.MULTILINE)


def page(names: Sequence[str], rows: Sequence[Row], more: Sequence[str] = ()) -> str:
    """Return docs/pairs.md; `more` are the lines about moves and losses."""
    lines = [INTRODUCTION, state(proven(rows)), "", LEGEND]
    for home, title in HOMES.items():
        cells = {(row.source, row.target): row for row in rows if row.home == home}
        passed = sum(row.passed for row in cells.values())
        run = f"{len(cells)} of {len(names) ** 2} pairs were run, {passed} passed"
        older = sum(row.is_older for row in cells.values())
        run += _between(row.date for row in cells.values()) + (f"; {older} of them older" if older else "")
        lines += ["", f"## {title}", "", f"{run}.", ""]
        lines += table("from \\ to", *names)
        lines += [line(source, *(_cell(cells.get((source, target))) for target in names)) for source in names]
    lines += ["", "## Its own session, opened as it is", "", *OWN_SESSIONS.splitlines(), ""]
    own = {row.target: row for row in rows if row.home == ITSELF}
    lines += [*table("tool", "result"), *(line(name, _cell(own.get(name))) for name in names)]
    lines += ["", "## What else the model gets, and what the screen shows", "", *DELIVERY.splitlines(), ""]
    lines += table("tool", "the command's text", "the block in a new session", "what remains")
    lines += [line(name, *DELIVERED[name]) for name in names if name in DELIVERED]
    lines += ["", "## What did not pass", ""]
    failed = [row for row in rows if not row.passed]
    if failed:
        lines += table("from", "to", "home", "what happened", "why")
        lines += [
            line(
                row.source,
                row.target,
                row.home,
                short(row.problem),
                REASONS.get((row.source, row.target, row.home), "unknown"),
            )
            for row in failed
        ]
    else:
        lines += ["The last run of every pair passed."]
    lines += ["", "## What was changed", "", "By the receipts, with the number of times in one conversation.", ""]
    lines += [*table("to", "change", "times", "from"), *_changes(names, rows)]
    lost = {(row.source, what) for row in rows if row.outcome for what in row.outcome.lost}
    lines += ["", "## What a program lost", ""]
    if lost:
        lines += ["It is not in the program's own records; [Records](record-kinds.md) says why.", ""]
        lines += [*table("from", "what"), *(line(source, what) for source, what in sorted(lost))]
    else:
        lines += ["Nothing: every output is in the program's own records."]
    lines += [*more, "", "## Versions", "", *table("tool", "program", "version")]
    lines += [line(name, registry.title_of(name), *versions(name)) for name in names]
    return "\n".join(lines) + "\n"


def reason(error: Exception) -> str:
    """Return why a run ended, in a sentence."""
    if isinstance(error, subprocess.TimeoutExpired):
        return f"{Path(error.cmd[0]).name} was stopped after {error.timeout:.0f} s"
    return f"{type(error).__name__}: {error}"


def _changes(names: Sequence[str], rows: Iterable[Row]) -> list[str]:
    """Return a line for each kind of change to each target, with the sources it was seen from."""
    seen: dict[tuple[str, str], dict[str, set[int]]] = {}
    for row in rows:
        outcome = row.outcome
        notes = {NOTES: outcome.notes} if outcome and outcome.notes else {}
        for kind, count in {**outcome.left_out, **outcome.changed, **notes}.items() if outcome else ():
            seen.setdefault((row.target, kind), {}).setdefault(row.source, set()).add(count)
    order = sorted(seen, key=lambda key: (names.index(key[0]), key[1]))
    return [line(target, kind, *_times(names, seen[target, kind])) for target, kind in order]


def _times(names: Sequence[str], counts: Mapping[str, set[int]]) -> tuple[str, str]:
    numbers = sorted(set().union(*counts.values()))
    times = str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
    sources = "all" if len(counts) == len(names) else ", ".join(name for name in names if name in counts)
    return times, sources


def _cell(row: Row | None) -> str:
    if row is None:
        return "–"
    outcome = row.outcome
    older = ", *older*" if row.is_older else ""
    if outcome is None:
        return f"✗{older}"
    changed = " †" if outcome.changed or outcome.left_out or outcome.notes else ""
    counts = f"{outcome.messages}/{outcome.of_messages}, {outcome.calls}/{outcome.of_calls}"
    lost = " ‡" if outcome.lost else ""
    new = ", *new*" if row.is_refused else ""
    return f"{'✓' if row.passed else '✗'} {counts}{changed}{lost}{new}{older}"


def _between(dates: Iterable[str]) -> str:
    days = sorted(set(dates))
    if not days:
        return ""
    return f", on {days[0]}" if len(days) == 1 else f", from {days[0]} to {days[-1]}"


def table(*titles: str) -> list[str]:
    """Return the first two lines of a table."""
    return [line(*titles), "|---" * len(titles) + "|"]


def line(*cells: str) -> str:
    """Return a line of a table."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def short(text: str, most: int = 300) -> str:
    """Return the beginning of a text."""
    return text if len(text) <= most else text[: most - 1] + "…"
