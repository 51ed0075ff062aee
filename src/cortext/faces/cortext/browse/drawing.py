"""The browser's pictures: rows of the list and the text of the preview, as lines of styled pieces that fit.

Everything from a session passes safety/terminal before it is measured, cut or lit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import chain

from cortext.faces.cortext.browse.work import Entry, Wanted
from cortext.faces.terminal.table import cut, pad, width
from cortext.model.message import THINKING, TOOL_CALL, TOOL_RESULT, Message
from cortext.safety import terminal
from cortext.services.library.listing import Row
from cortext.services.library.search import Match

Piece = tuple[str, str]  # style and text
Line = list[Piece]

LONGEST = 6_000  # characters of a message that a preview shows
_NARROW = 70  # columns below which a row of the list is its title and its day
MOST_LINES = 60  # lines of a tool's result that are shown unfolded


def entry_lines(entry: Entry, cells: int, *, chosen: bool, wide: bool) -> list[Line]:
    """A session of the list: one line where there is little room, else its title, its facts, and what was found."""
    row = entry.row
    mark = "›" if chosen else " "
    style = "class:chosen" if chosen else "class:name"
    name = terminal.line(row.name)
    if not wide:
        facts = cut(terminal.line(_few_facts(row, cells)), 36)
        room = max(8, cells - width(facts) - 4)
        return [[(style, f"{mark} {pad(cut(name, room), room)}"), ("class:dim", f"  {facts}")]]
    lines: list[Line] = [
        [(style, pad(cut(f"{mark} {name}", cells), cells))],
        [("class:dim", cut(f"  {terminal.line(_facts(row))}", cells))],
    ]
    if entry.matches:
        lines.append([("", "  "), *_cut_pieces(snippet(entry.matches[0]), cells - 2)])
    return lines


def _few_facts(row: Row, cells: int) -> str:
    """Type, tool and day; on a narrow screen the day alone, so that the title can be read."""
    facts = [row.type or row.kind, row.tool, row.last_active[:10]]
    return " · ".join(filter(None, facts if cells >= _NARROW else facts[-1:]))


def _facts(row: Row) -> str:
    facts = [
        row.type or row.kind,
        row.tool or row.agent,
        row.status,
        row.last_active[:10],
        f"{row.message_count} messages",
    ]
    return " · ".join(fact for fact in facts if fact)


def snippet(match: Match) -> Line:
    """The snippet with its words lit; each piece is made safe by itself, so that no mark moves another."""
    pieces: Line = []
    place = 0
    for start, end in match.highlights:
        if start >= place:
            pieces.append(("class:dim", terminal.line(match.snippet[place:start])))
            pieces.append(("class:lit", terminal.line(match.snippet[start:end])))
            place = end
    pieces.append(("class:dim", terminal.line(match.snippet[place:])))
    # What was found should be seen in a narrow list: a long way to the first lit word is left out.
    lead = pieces[0][1]
    if len(pieces) > 1 and width(lead) > 24:
        pieces[0] = ("class:dim", "…" + lead[-20:])
    return pieces


def _cut_pieces(pieces: Line, cells: int) -> Line:
    out: Line = []
    for style, text in pieces:
        if cells <= 0:
            break
        text = cut(text, cells)
        out.append((style, text))
        cells -= width(text)
    return out


def lit_words(matches: Sequence[Match]) -> re.Pattern[str] | None:
    """The words that search lit, wherever they stand in the preview."""
    found = {match.snippet[start:end] for match in matches for start, end in match.highlights}
    words = sorted({terminal.line(word) for word in found if word.strip()}, key=len, reverse=True)
    if not words:
        return None
    # A word of letters is lit as a whole word; signs of scripts without blanks wherever they stand.
    parts = [rf"\b{re.escape(word)}\b" if word.isascii() and word.isalnum() else re.escape(word) for word in words]
    return re.compile("|".join(parts), re.IGNORECASE)


def preview_head(row: Row, cells: int) -> list[Line]:
    """What stands above the preview and does not move."""
    facts = f"{row.id} · {_facts(row)}"
    return [[("class:title", cut(terminal.line(row.name), cells))], [("class:dim", cut(terminal.line(facts), cells))]]


def preview_lines(
    wanted: Wanted, messages: Sequence[Message], cells: int, lit: re.Pattern[str] | None, *, unfolded: bool
) -> tuple[list[Line], dict[int, int]]:
    """The summary and the messages, wrapped; and by their numbers the lines on which they begin."""
    lines: list[Line] = []
    places: dict[int, int] = {}
    if wanted.row.summary:
        lines += _wrapped(wanted.row.summary, cells, "class:summary", lit)
        lines.append([])
    for message in messages:
        places[message.seq] = len(lines)
        lines += _message(message, cells, lit, unfolded=unfolded)
        lines.append([])
    return lines, places


def _message(message: Message, cells: int, lit: re.Pattern[str] | None, *, unfolded: bool) -> list[Line]:
    role, when = terminal.line(message.role), terminal.line(message.timestamp[:16].replace("T", " "))
    style = f"class:{role if role in _ROLES else 'tool'}"
    lines = [_cut_pieces([(style, role), ("class:dim", f"  #{message.seq}  {when}")], cells)]
    if message.content:
        text = message.content[:LONGEST]
        more = len(message.content) - len(text)
        lines += _wrapped(text, cells, "", lit)
        if more:
            lines.append([("class:dim", cut(f"… {more:,} more characters", cells))])
    for part in message.parts or ():
        if part.type == TOOL_CALL:
            lines += _call(part.name, part.input, cells, lit, unfolded=unfolded)
        elif part.type == TOOL_RESULT:
            lines += _result(part.output, cells, lit, unfolded=unfolded, failed=part.is_error)
        elif part.type == THINKING and unfolded:
            lines += _wrapped(f"(thinking) {part.text[:LONGEST]}", cells, "class:dim", lit)
        elif part.ref:
            lines.append([("class:dim", cut(terminal.line(f"[{part.type} {part.ref}]"), cells))])
    return lines


_ROLES = ("user", "assistant", "tool", "system")


def _call(name: str, given: object, cells: int, lit: re.Pattern[str] | None, *, unfolded: bool) -> list[Line]:
    if unfolded:
        shown = json.dumps(given, ensure_ascii=False, indent=2)[:LONGEST]
        return _wrapped(f"▾ {name}\n{shown}", cells, "class:call", lit)
    short = " ".join(json.dumps(given, ensure_ascii=False)[:400].split())
    return [_lit(cut(terminal.line(f"▸ {name} {short}"), cells), "class:call", lit)]


def _result(output: str, cells: int, lit: re.Pattern[str] | None, *, unfolded: bool, failed: bool) -> list[Line]:
    style = "class:failed" if failed else "class:dim"
    rows = output.count("\n") + 1 if output else 0
    if not unfolded:
        said = [line.strip() for line in output[:LONGEST].splitlines() if line.strip()] or ["(nothing)"]
        # Of a result that is folded, the line that was found, else the first.
        first = next((line for line in said if lit is not None and lit.search(line)), said[0])
        count = f" ({rows} lines)" if rows > 1 else ""
        return [_lit(cut(terminal.line(f"  ◂{count} {first}"), cells), style, lit)]
    lines = _wrapped("\n".join(output[:LONGEST].splitlines()[:MOST_LINES]), cells, style, lit)
    if rows > MOST_LINES or len(output) > LONGEST:
        lines.append([("class:dim", cut(f"… of {rows:,} lines: `cortext show --tools` has them all", cells))])
    return lines


def _wrapped(text: str, cells: int, style: str, lit: re.Pattern[str] | None) -> list[Line]:
    """A text in lines of at most so many cells, broken between words where there are any, with its words lit."""
    plain = terminal.block(text).expandtabs(4)
    return [_lit(line, style, lit) for line in chain.from_iterable(wrap(row, cells) for row in plain.split("\n"))]


def wrap(text: str, cells: int) -> list[str]:
    """One line of text as several. Each character is looked at once or twice, however long the text."""
    if len(text) <= cells and text.isascii():
        return [text.rstrip()]
    lines: list[str] = []
    start = used = blank = 0
    for place, character in enumerate(text):
        size = width(character)
        if used + size > cells and place > start:
            if character == " ":  # it falls between the lines
                end = following = place
            else:
                end = following = blank if blank > start + (place - start) // 2 else place
            while following <= place and text[following] == " ":
                following += 1
            lines.append(text[start:end].rstrip())
            start, used = following, width(text[following:place])
            if following > place:
                continue
        if character == " ":
            blank = place + 1
        used += size
    return [*lines, text[start:].rstrip()] if start < len(text) or not lines else lines


def _lit(text: str, style: str, lit: re.Pattern[str] | None) -> Line:
    if lit is None:
        return [(style, text)]
    pieces: Line = []
    place = 0
    for found in lit.finditer(text):
        pieces += [(style, text[place : found.start()]), ("class:lit", found.group())]
        place = found.end()
    pieces.append((style, text[place:]))
    return [piece for piece in pieces if piece[1]]
