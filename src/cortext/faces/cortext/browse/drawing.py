"""What the browser draws: rows of the list and the text of the preview, as lines of styled spans that fit.

Everything from a session passes safety/terminal before it is measured, cut or highlighted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import chain

from cortext.faces.cortext.browse.work import ReadingPlace
from cortext.faces.terminal.table import cut, pad, width
from cortext.model import clock
from cortext.model.message import THINKING, TOOL_CALL, TOOL_RESULT, Message
from cortext.model.wording import amount
from cortext.safety import terminal
from cortext.services.library.listing import Row
from cortext.services.library.sources import Match, SessionHit

Span = tuple[str, str]  # style and text
Line = list[Span]

LONGEST = 6_000  # characters of a message that a preview shows
_NARROW = 70  # columns below which a row of the list shows only its title and date
MOST_LINES = 60  # lines of an unfolded tool result


def entry_lines(hit: SessionHit, cells: int, *, chosen: bool, wide: bool, name: str = "") -> list[Line]:
    """Return a session of the list: one line if space is short, else its title, its facts, and a snippet.

    `name` is what it is called among the others.
    """
    row = hit.session
    name = name or row.name
    mark = "›" if chosen else " "
    style = "class:chosen" if chosen else "class:name"
    name = terminal.line(f"★ {name}" if row.starred else name)
    if not wide:
        facts = cut(terminal.line(_few_facts(row, cells)), 36)
        room = max(8, cells - width(facts) - 4)
        return [[(style, f"{mark} {pad(cut(name, room), room)}"), ("class:dim", f"  {facts}")]]
    lines: list[Line] = [
        [(style, pad(cut(f"{mark} {name}", cells), cells))],
        [("class:dim", cut(f"  {terminal.line(_facts(row))}", cells))],
    ]
    if hit.matches:
        lines.append([("", "  "), *_cut_spans(snippet(hit.matches[0]), cells - 2)])
    return lines


def _few_facts(row: Row, cells: int) -> str:
    """Return type, tool and date; on a narrow screen only the date, to leave room for the title."""
    facts = [row.type or row.kind, row.tool, clock.day(row.last_active)]
    return " · ".join(filter(None, facts if cells >= _NARROW else facts[-1:]))


def _facts(row: Row) -> str:
    facts = [
        row.type or row.kind,
        row.tool or row.agent,
        row.status,
        row.place,
        clock.day(row.last_active),
        amount(row.message_count, "message"),
        *(f"#{tag}" for tag in row.tag_names),
    ]
    return " · ".join(fact for fact in facts if fact)


def snippet(match: Match) -> Line:
    """Return the snippet with its words highlighted; each span is made safe separately, so that offsets stay right."""
    spans: Line = []
    position = 0
    for start, end in match.highlights:
        if start >= position:
            spans.append(("class:dim", terminal.line(match.snippet[position:start])))
            spans.append(("class:highlight", terminal.line(match.snippet[start:end])))
            position = end
    spans.append(("class:dim", terminal.line(match.snippet[position:])))
    # The match must be visible in a narrow list: a long lead before the first highlight is shortened.
    lead = spans[0][1]
    if len(spans) > 1 and width(lead) > 24:
        spans[0] = ("class:dim", "…" + lead[-20:])
    return spans


def _cut_spans(spans: Line, cells: int) -> Line:
    out: Line = []
    for style, text in spans:
        if cells <= 0:
            break
        text = cut(text, cells)
        out.append((style, text))
        cells -= width(text)
    return out


def highlight_pattern(matches: Sequence[Match]) -> re.Pattern[str] | None:
    """Return a pattern of the words that search highlighted, to highlight them throughout the preview."""
    found = {match.snippet[start:end] for match in matches for start, end in match.highlights}
    words = sorted({terminal.line(word) for word in found if word.strip()}, key=len, reverse=True)
    if not words:
        return None
    # ASCII words match as whole words; scripts without blanks between words match anywhere.
    parts = [rf"\b{re.escape(word)}\b" if word.isascii() and word.isalnum() else re.escape(word) for word in words]
    return re.compile("|".join(parts), re.IGNORECASE)


def preview_head(row: Row, cells: int) -> list[Line]:
    """Return the fixed lines above the preview."""
    facts = f"{row.id} · {_facts(row)}"
    return [[("class:title", cut(terminal.line(row.name), cells))], [("class:dim", cut(terminal.line(facts), cells))]]


def preview_lines(
    wanted: ReadingPlace, messages: Sequence[Message], cells: int, pattern: re.Pattern[str] | None, *, unfolded: bool
) -> tuple[list[Line], dict[int, int]]:
    """Return the summary and the messages, wrapped; and the first line of each message by its number."""
    lines: list[Line] = []
    first_lines: dict[int, int] = {}
    if wanted.row.summary:
        lines += _wrapped(wanted.row.summary, cells, "class:summary", pattern)
        lines.append([])
    for message in messages:
        first_lines[message.seq] = len(lines)
        lines += _message(message, cells, pattern, unfolded=unfolded)
        lines.append([])
    return lines, first_lines


def _message(message: Message, cells: int, pattern: re.Pattern[str] | None, *, unfolded: bool) -> list[Line]:
    role, when = terminal.line(message.role), terminal.line(clock.minute(message.timestamp))
    style = f"class:{role if role in _ROLES else 'tool'}"
    lines = [_cut_spans([(style, role), ("class:dim", f"  #{message.seq}  {when}")], cells)]
    if message.content:
        text = message.content[:LONGEST]
        more = len(message.content) - len(text)
        lines += _wrapped(text, cells, "", pattern)
        if more:
            lines.append([("class:dim", cut(f"… {more:,} more characters", cells))])
    for part in message.parts or ():
        if part.type == TOOL_CALL:
            lines += _call(part.name, part.input, cells, pattern, unfolded=unfolded)
        elif part.type == TOOL_RESULT:
            lines += _result(part.output, cells, pattern, unfolded=unfolded, failed=part.is_error)
        elif part.type == THINKING and unfolded:
            lines += _wrapped(f"(thinking) {part.text[:LONGEST]}", cells, "class:dim", pattern)
        elif part.ref:
            lines.append([("class:dim", cut(terminal.line(f"[{part.type} {part.ref}]"), cells))])
    return lines


_ROLES = ("user", "assistant", "tool", "system")


def _call(name: str, given: object, cells: int, pattern: re.Pattern[str] | None, *, unfolded: bool) -> list[Line]:
    if unfolded:
        shown = json.dumps(given, ensure_ascii=False, indent=2)[:LONGEST]
        return _wrapped(f"▾ {name}\n{shown}", cells, "class:call", pattern)
    short = " ".join(json.dumps(given, ensure_ascii=False)[:400].split())
    return [_highlighted(cut(terminal.line(f"▸ {name} {short}"), cells), "class:call", pattern)]


def _result(output: str, cells: int, pattern: re.Pattern[str] | None, *, unfolded: bool, failed: bool) -> list[Line]:
    style = "class:failed" if failed else "class:dim"
    rows = output.count("\n") + 1 if output else 0
    if not unfolded:
        texts = [line.strip() for line in output[:LONGEST].splitlines() if line.strip()] or ["(empty)"]
        # A folded result shows the line that matches, else the first.
        first = next((line for line in texts if pattern is not None and pattern.search(line)), texts[0])
        count = f" ({amount(rows, 'line')})" if rows > 1 else ""
        return [_highlighted(cut(terminal.line(f"  ◂{count} {first}"), cells), style, pattern)]
    lines = _wrapped("\n".join(output[:LONGEST].splitlines()[:MOST_LINES]), cells, style, pattern)
    if rows > MOST_LINES or len(output) > LONGEST:
        lines.append([("class:dim", cut(f"… of {amount(rows, 'line')}: `cortext show --tools` shows them all", cells))])
    return lines


def _wrapped(text: str, cells: int, style: str, pattern: re.Pattern[str] | None) -> list[Line]:
    """Return a text in lines of at most `cells` columns, broken between words if possible, with highlights."""
    plain = terminal.block(text).expandtabs(4)
    return [
        _highlighted(line, style, pattern)
        for line in chain.from_iterable(wrap(row, cells) for row in plain.split("\n"))
    ]


def wrap(text: str, cells: int) -> list[str]:
    """Split one line of text into several. Runs in linear time, however long the text is."""
    if len(text) <= cells and text.isascii():
        return [text.rstrip()]
    lines: list[str] = []
    start = used = blank = 0
    for index, character in enumerate(text):
        size = width(character)
        if used + size > cells and index > start:
            if character == " ":  # dropped between the lines
                end = following = index
            else:
                end = following = blank if blank > start + (index - start) // 2 else index
            while following <= index and text[following] == " ":
                following += 1
            lines.append(text[start:end].rstrip())
            start, used = following, width(text[following:index])
            if following > index:
                continue
        if character == " ":
            blank = index + 1
        used += size
    return [*lines, text[start:].rstrip()] if start < len(text) or not lines else lines


def _highlighted(text: str, style: str, pattern: re.Pattern[str] | None) -> Line:
    if pattern is None:
        return [(style, text)]
    spans: Line = []
    position = 0
    for found in pattern.finditer(text):
        spans += [(style, text[position : found.start()]), ("class:highlight", found.group())]
        position = found.end()
    spans.append((style, text[position:]))
    return [span for span in spans if span[1]]
