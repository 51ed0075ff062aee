"""What a command answers, on the terminal."""

from __future__ import annotations

import os
import sys

from cortext.errors import UsageError
from cortext.faces.terminal.style import columns, paint
from cortext.faces.terminal.table import Column, fitted_table, table
from cortext.io import files as fsio
from cortext.safety import terminal
from cortext.services.assistant.commands import Answer, Hit


def show(answer: Answer) -> None:
    """Print it. A document goes to its file, which must not be there yet; `-` is standard output."""
    if answer.above:
        print(f"{terminal.line(answer.above)}\n")
    if answer.rows:
        print(_sessions(answer))
    for hit in answer.hits:
        _show_hit(hit)
    if answer.document and answer.name == "-":
        print(terminal.block(answer.document) if sys.stdout.isatty() else answer.document, end="")
        return
    if answer.document:
        path = os.path.abspath(os.path.expanduser(answer.name))
        if os.path.lexists(path):
            raise UsageError(f"there is a file {path} already", kept="it is unchanged", hint="/export OTHER-NAME")
        fsio.replace_file(path, [answer.document.encode("utf-8", "surrogateescape")])
        print(terminal.line(f"{answer.text} Written to {path}"))
    elif answer.text:
        print(terminal.block(answer.text))


def _sessions(answer: Answer) -> str:
    """The table of sessions: on a screen what fits, with the numbers that /resume takes; everything elsewhere."""
    screen = columns()
    if not screen:
        return table(answer.heads, answer.rows, styles=("cyan",))
    ranks = (0, 3, 1, 2, 0)  # the summary is cut, and the day that it was created is the first to go
    cells = [list(column) for column in zip(*answer.rows, strict=True)]
    given = [Column("#", [str(place + 1) for place in range(len(answer.rows))], right=True, style="dim")]
    for place, (head, rank, column) in enumerate(zip(answer.heads, ranks, cells, strict=True)):
        given.append(Column(head, column, rank=rank, style="" if place else "cyan"))
    return fitted_table(given, len(given) - 1, screen, least=16)[0]


def _show_hit(hit: Hit) -> None:
    head = f"{paint(terminal.line(hit.id), 'cyan')}  {terminal.line(hit.title)}  "
    print(head + paint(terminal.line(f"{hit.where} · {hit.when}"), "dim"))
    pieces, end = [], 0
    for start, stop in hit.lit:
        pieces += [terminal.line(hit.snippet[end:start]), paint(terminal.line(hit.snippet[start:stop]), "bold")]
        end = stop
    print("  " + "".join(pieces) + terminal.line(hit.snippet[end:]))
