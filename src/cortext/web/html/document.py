"""A conversation as one HTML file: the same look as the page, nothing to load, works from a disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files

from markupsafe import Markup

from cortext.model.message import TOOL_CALL, TOOL_RESULT, Message
from cortext.model.session import Session
from cortext.web.html.message import render
from cortext.web.html.rendering import load_template
from cortext.wiring import tools

BATCH = 200  # messages that are rendered together, and at most as many more until every call has its result
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


class _Inside:
    """The links of a message in a file: only to itself."""

    def message(self, seq: int) -> str:
        return f"#m{seq}"

    def reveal(self, seq: int) -> str:
        return ""

    def full(self, seq: int) -> str:
        return ""

    def file(self, path: str) -> str:
        return ""


@cache
def style() -> Markup:
    """Return the style sheets for a file."""
    texts = (files("cortext.web.html").joinpath("static", name).read_text("utf-8") for name in _SHEETS)
    return Markup("\n".join(texts))


_SHEETS = ("reading.css", "document.css")


def document_chunks(
    session: Session, messages: Iterable[Message], *, full: bool = False, masked: bool = True
) -> Iterator[str]:
    """Yield the file, some messages at a time. Session and messages are masked by the caller, as for any export.

    Long texts, results and calls are cut, and say so, unless `full`. If it is not `masked`, the file says that, too.
    """
    head, _, tail = (
        load_template("html/document.html")
        .render(session=session, tool=tools.title(session.origin.tool), style=style(), policy=POLICY, masked=masked)
        .partition("<!-- messages -->")
    )
    yield head
    for batch in _batches(messages):
        whole = {message.seq for message in batch} if full else ()
        yield str(render(batch, _Inside(), full=whole))
    yield tail


def _batches(messages: Iterable[Message]) -> Iterator[list[Message]]:
    """Yield messages to render together: a result is shown with its call if both are in one batch."""
    batch: list[Message] = []
    waiting: set[str] = set()  # calls without a result yet
    for message in messages:
        batch.append(message)
        for part in message.parts or ():
            if part.type == TOOL_CALL and part.id:
                waiting.add(part.id)
            elif part.type == TOOL_RESULT:
                waiting.discard(part.call_id)
        if len(batch) >= BATCH and (not waiting or len(batch) >= 2 * BATCH):
            yield batch
            batch, waiting = [], set()
    if batch:
        yield batch


def document(session: Session, messages: Iterable[Message], *, full: bool = False, masked: bool = True) -> str:
    """Return the same file at once."""
    return "".join(document_chunks(session, messages, full=full, masked=masked))
