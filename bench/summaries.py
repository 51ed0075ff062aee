"""What a summary holds of a conversation: the last ask, the goal, the decision and the open point, marked by hand."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from bench.common import parser_of, print_table, work_folder
from bench.packet import text_parts, transcripts
from bench.why import publish
from cortext.model.asides import with_asides
from cortext.model.message import Message
from cortext.model.session import Details
from cortext.model.threads import thread
from cortext.services.text.sentences import sentences
from cortext.services.text.summaries import summarise
from cortext.services.text.summary_check import check_summary
from cortext.services.workspace.pausing import wants_to_pause

MARKS = os.path.join(os.path.dirname(__file__), "summaries.json")
KINDS = ("last ask", "goal", "decision", "open point")
HALF = 20  # conversations, in the order of the file, to tune with; the others are for the test
AIMS = {"agent": 36, "extract": 28}  # of 40 conversations in which every mark is held
_LABEL = re.compile(r"\b(?:User|Agent|Last ask|Answer): ")
_NOTE = re.compile(r" \((?:rejected later|the user said no|not answered yet)\)")


class Case(NamedTuple):
    """A conversation with its marks, and what was recorded as an agent's summary of it."""

    id: str
    marks: Mapping[str, Sequence[str]]
    recorded: Mapping[str, Any]


class Verdict(NamedTuple):
    """What one summary lacks: the kinds of marks, and lines that say what the conversation does not hold."""

    text: str
    missing: list[str]
    unheld: list[str]


def run_summaries() -> None:
    """Whether a summary holds the last ask, the goal, the settled decision and the open point of a conversation.

    python -m bench summaries REPOSITORY [--half dev|test] [--show]

    REPOSITORY is a git directory that publishes its transcripts, as for `bench why`; a folder of transcripts may be
    given as well. bench/summaries.json has the marks of 40 conversations, made by hand: for each kind alternatives, of
    which one has to occur with all of its words. The first 20 are to tune with, the others for the test. An agent's
    summary was recorded for each before it was marked, and is checked as if the agent had handed it over; the extract
    is made from the text; that of the next conversation is the control. A conversation counts if every kind is held.
    "Not in the log" counts lines with a name, path, number or quotation that the conversation does not have: of the
    agent's as it was handed over, because they are dropped.
    `--show` prints each summary that lacks something.
    """
    parser = parser_of(run_summaries)
    parser.add_argument("repository", metavar="REPOSITORY")
    parser.add_argument("--half", choices=("dev", "test"), default="")
    parser.add_argument("--show", action="store_true", help="print each summary that lacks something")
    options = parser.parse_args()
    cases = half_of(read_cases(), options.half)
    with work_folder() as folder:
        if os.path.isfile(os.path.join(options.repository, "HEAD")):
            publish(options.repository, folder)
        else:
            folder = options.repository
        talks = talks_in(folder, {case.id for case in cases})
    if not talks:
        sys.exit("none of the marked conversations is there")
    present = [case for case in cases if case.id in talks]
    verdicts = {
        "agent": [by_agent(case, talks[case.id]) for case in present],
        "extract": [by_extract(case, talks[case.id]) for case in present],
    }
    verdicts["extract of the next"] = of_the_next(present, verdicts["extract"])
    for kind, judged in verdicts.items():
        for case, verdict in zip(present, judged, strict=True):
            if options.show and kind in AIMS and (verdict.missing or verdict.unheld):
                print(
                    f"{kind} {case.id[:8]} lacks {verdict.missing}, not in the log {verdict.unheld}\n  {verdict.text}\n"
                )
    rows = [_row(kind, present, judged) for kind, judged in verdicts.items()]
    print_table(("", "all", "95 %", *KINDS, "not in the log"), rows)
    if len(present) < len(cases):
        print(f"{len(cases) - len(present)} marked conversations are not there")


def read_cases() -> list[Case]:
    """Return the marked conversations."""
    with open(MARKS, encoding="utf-8") as file:
        return [Case(**one) for one in json.load(file)]


def half_of(cases: list[Case], half: str) -> list[Case]:
    """Return the half to tune with (`dev`), the one that is kept for the test, or both."""
    return {"dev": cases[:HALF], "test": cases[HALF:]}.get(half, cases)


def talks_in(folder: str, ids: set[str]) -> dict[str, list[Message]]:
    """Return the conversations with these ids, as they are stored."""
    found = {}
    for path, tool in transcripts([folder]):
        name = os.path.splitext(os.path.basename(path))[0]
        transcript = tool.transcript_at(path) if name in ids else None
        if transcript is not None:
            found[name] = thread(list(with_asides(tool.read(transcript))))
    return found


def by_agent(case: Case, messages: Sequence[Message]) -> Verdict:
    """Judge what the check keeps of the recorded summary."""
    details = Details(**{name: value for name, value in case.recorded.items() if name != "summary"})
    checked = check_summary(case.recorded["summary"], details, messages)
    kept = checked.details.by_name().values()
    text = "\n".join([checked.summary, *(line for lines in kept for line in lines)])
    unheld = [line for line in checked.dropped if "not in the conversation" in line]
    return Verdict(text, missing_in(text, case.marks), unheld)


def by_extract(case: Case, messages: Sequence[Message]) -> Verdict:
    """Judge the summary that is made without an agent."""
    text = summarise(messages, leave_out=wants_to_pause)
    lines = sentences(_NOTE.sub("", _LABEL.sub("\n\n", text)))
    unheld = [line for one in lines for line in check_summary("", Details(open=[one]), messages).dropped]
    held = " ".join(" ".join(text_parts(messages)).split())
    return Verdict(text, missing_in(text, case.marks), [line for line in unheld if _is_unheld(line, held)])


def of_the_next(cases: Sequence[Case], verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Judge the summaries of other conversations by these marks: the control, which should hold little."""
    others = [*verdicts[1:], *verdicts[:1]]
    return [
        Verdict(other.text, missing_in(other.text, case.marks), []) for case, other in zip(cases, others, strict=True)
    ]


def _is_unheld(line: str, held: str) -> bool:
    """Whether a sentence of an extract is not a quotation; one that was cut is looked for without its end."""
    said = line.partition(': "')[2].removesuffix('"')
    return "not in the conversation" in line and said.rstrip("… .")[:80] not in held


def missing_in(text: str, marks: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the kinds of which a text holds no alternative; a kind without alternatives is not asked for."""
    return [kind for kind in KINDS if marks[kind] and not any(holds(text, words) for words in marks[kind])]


def holds(text: str, words: str) -> bool:
    """Whether each of these words occurs, as the beginning of a word."""
    text = text.casefold()
    return all(re.search(rf"(?<!\w){re.escape(word)}", text) for word in words.casefold().split())


def wilson(right: int, of: int) -> tuple[float, float]:
    """Return the Wilson interval of 95 % of a share."""
    if not of:
        return 0.0, 1.0
    z, share = 1.96, right / of
    middle = share + z * z / (2 * of)
    spread = z * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    return max(0.0, (middle - spread) / (1 + z * z / of)), min(1.0, (middle + spread) / (1 + z * z / of))


def _row(kind: str, cases: Sequence[Case], verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    whole = sum(not verdict.missing for verdict in verdicts)
    low, high = wilson(whole, len(verdicts))
    aim = f" (aim {AIMS[kind]})" if kind in AIMS and len(verdicts) == 2 * HALF else ""
    return (
        kind,
        f"{whole} of {len(verdicts)}{aim}",
        f"{low:.0%}–{high:.0%}",
        *(_share(one, cases, verdicts) for one in KINDS),
        str(sum(len(verdict.unheld) for verdict in verdicts)),
    )


def _share(kind: str, cases: Iterable[Case], verdicts: Iterable[Verdict]) -> str:
    asked = [verdict for case, verdict in zip(cases, verdicts, strict=True) if case.marks[kind]]
    return f"{sum(kind not in verdict.missing for verdict in asked)} of {len(asked)}"
