"""A conversation as one HTML file: the same look as the page, nothing to load, works from a disk."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files

from markupsafe import Markup

from cortext.faces.html import message as shown
from cortext.faces.html.templates import environment
from cortext.model.message import Message
from cortext.model.session import Session
from cortext.wiring import tools

BATCH = 200  # messages that are rendered together; a result is shown with its call if both are in one
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


class _Inside:
    """The links of a message in a file: only to itself."""

    def message(self, seq: int) -> str:
        return f"#m{seq}"

    def reveal(self, seq: int) -> str:
        return ""

    def full(self, seq: int) -> str:
        return ""


@cache
def style() -> Markup:
    """Return the style sheets for a file."""
    texts = (files("cortext.faces.html").joinpath("static", name).read_text("utf-8") for name in _SHEETS)
    return Markup("\n".join(texts))


_SHEETS = ("reading.css", "document.css")


def document_chunks(session: Session, messages: Iterable[Message], *, full: bool = False) -> Iterator[str]:
    """Yield the file, some messages at a time. Session and messages are masked by the caller, as for any export.

    Long results and calls are cut, and say so, unless `full`.
    """
    head, _, tail = (
        environment()
        .get_template("html/document.html")
        .render(session=session, tool=tools.title(session.origin.tool), style=style(), policy=POLICY)
        .partition("<!-- messages -->")
    )
    yield head
    remaining = iter(messages)
    while batch := list(itertools.islice(remaining, BATCH)):
        whole = {message.seq for message in batch} if full else ()
        yield str(shown.html(shown.items(batch, _Inside(), full=whole)))
    yield tail


def document(session: Session, messages: Iterable[Message], *, full: bool = False) -> str:
    """Return the same file at once."""
    return "".join(document_chunks(session, messages, full=full))
