"""Many conversations as a folder of files that needs no server: a page for each, and one that searches them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files

from cortext.faces.html.document import style
from cortext.faces.html.sealed import policy
from cortext.faces.html.templates import environment
from cortext.model import clock
from cortext.model.message import ASSISTANT, USER, Message
from cortext.model.session import Session
from cortext.wiring import tools

WORDS = 4_000  # characters of each conversation that the first page searches


class Entry:
    """A conversation of the site, masked by the caller: its file, and what the first page shows and searches."""

    def __init__(self, session: Session, name: str) -> None:
        self.name = name
        self.title = session.title or session.id or "A conversation"
        facts = [tools.title(session.origin.tool), session.type, clock.short(session.last_active)]
        self.facts = " · ".join(fact for fact in facts if fact)
        self.text = session.summary[:WORDS]

    def noting(self, messages: Iterable[Message]) -> Iterator[Message]:
        """Yield the messages, and note their words on the way."""
        for message in messages:
            if message.role in (USER, ASSISTANT) and len(self.text) < WORDS:
                self.text = f"{self.text} {message.content}"[:WORDS]
            yield message


@cache
def _script() -> str:
    return files("cortext.faces.html").joinpath("static", "site.js").read_text("utf-8")


def first_page(entries: Iterable[Entry]) -> str:
    """Return the page that lists and searches them."""
    listed = list(entries)
    # In a script element only "</" and "<!--" could end it early.
    data = json.dumps([each.text.casefold() for each in listed], ensure_ascii=False).replace("<", "\\u003c")
    script = _script()
    template = environment().get_template("html/site.html")
    return template.render(entries=listed, data=data, style=style(), script=script, policy=policy(script))
