"""Printing the answers of slash commands on the terminal."""

from __future__ import annotations

import os
import sys

from cortext.agents.assistant.commands import Answer, Hit
from cortext.errors import UsageError
from cortext.faces.terminal.style import columns, paint
from cortext.faces.terminal.table import Column, fitted_table, table
from cortext.io import durable
from cortext.safety import terminal


def show(answer: Answer) -> None:
    """Print an answer. A document is written to its file, which must not exist yet; `-` is standard output."""
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
            raise UsageError(f"{path} exists", kept="it is unchanged", hint="choose another name: /export OTHER-NAME")
        durable.replace_file(path, [answer.document.encode("utf-8", "surrogateescape")])
        print(terminal.line(f"{answer.text} Written to {path}"))
    elif answer.text:
        print(terminal.block(answer.text))


def _sessions(answer: Answer) -> str:
    """Return the table of sessions: fitted to a terminal, with the row numbers that /resume accepts; or complete."""
    screen = columns()
    if not screen:
        return table(answer.heads, answer.rows, styles=("cyan",))
    ranks = (0, 3, 1, 2, 0)  # the summary is truncated, and the creation date is the first column to be dropped
    cells = [list(column) for column in zip(*answer.rows, strict=True)]
    shown = [Column("#", [str(index + 1) for index in range(len(answer.rows))], right=True, style="dim")]
    for index, (head, rank, column) in enumerate(zip(answer.heads, ranks, cells, strict=True)):
        shown.append(Column(head, column, rank=rank, style="" if index else "cyan"))
    return fitted_table(shown, len(shown) - 1, screen, least=16)[0]


def _show_hit(hit: Hit) -> None:
    head = f"{paint(terminal.line(hit.id), 'cyan')}  {terminal.line(hit.title)}  "
    print(head + paint(terminal.line(f"{hit.where} · {hit.when}"), "dim"))
    snippet, end = "", 0
    for start, stop in hit.highlights:
        snippet += terminal.line(hit.snippet[end:start]) + paint(terminal.line(hit.snippet[start:stop]), "bold")
        end = stop
    print(f"  {snippet}{terminal.line(hit.snippet[end:])}")
