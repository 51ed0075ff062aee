"""Paths inside texts, mapped from the folders that a project was in to the one that it is in now.

Only whole paths are mapped: /work/pond and what is below it, but neither /work/pondside nor /other/work/pond. The same
path is recognised with ~ for the home folder and as JSON writes it inside a text. Pure.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from cortext.model.message import Message, Part
from cortext.model.turns import parts_of
from cortext.services.text.message_masking import change_texts

# What may not stand before a path: a name that it continues. The end of an option (-I/work), of an escape (\n in JSON,
# a colour on a terminal), of `file://`, an @ that names a file and the sign of a changed line are no such names.
_BEFORE = (
    r"(?:(?<![\w.~/%@+)}*\\-])|(?<=^-[A-Za-z])|(?<=[\s\"']-[A-Za-z])|(?<=\\[nrt])|(?<=\x1b\[\dm)|(?<=\x1b\[\d\dm)"
    r"|(?<=\x1b\[\d;\d\dm)|(?<=://)|(?<=^[@+-])|(?<=[\s\"'(`]@)|(?<=\n[+-]))"
)
# What may not follow: the rest of a longer name. A full stop may end a sentence, a backslash may begin an escape.
_AFTER = r"(?![\w@+~-]|\.+[\w@+~-]|%[0-9A-Fa-f]{2}|\\ |\\u[0-9A-Fa-f]{4})"
_ANY_HOME = re.compile(r"/(?:home/[^/]+|Users/[^/]+|root)(?=/)")


class PathMap:
    """Maps the paths below some folders to those below another one."""

    def __init__(self, old: Sequence[str], new: str, home: str = "") -> None:
        self.new = new
        self._forms: dict[str, str] = {}
        self._folders: dict[str, str] = {}  # by form
        here = _with_tilde(new, home)
        for folder in old:
            if folder.strip("/") and folder != new:
                self._add(folder, folder, new)
                if there := _with_tilde(folder, home) or _with_any_tilde(folder):
                    self._add(folder, there, here or new)
        # Where the project is now stays as it is, also if that is below a folder in which it was before.
        self._pattern = _pattern([*self._forms, *self._forms.values()]) if self._forms else None
        self._counts: dict[str, Counter[str]] = {}  # the folders that were mapped in each message, by its id

    def _add(self, folder: str, old: str, new: str) -> None:
        for written in (str, _in_json, _in_json_with_escaped_slashes):
            if written(old) != written(new) and written(old) not in self._forms:
                self._forms[written(old)] = written(new)
                self._folders[written(old)] = folder

    def text(self, text: str) -> str:
        """Return the text with its paths mapped."""
        return self._mapped(text, Counter())

    def message(self, message: Message) -> Message:
        """Return the message with its paths mapped and everything else, its id too, as it is."""
        if self._pattern is None:
            return message
        count: Counter[str] = Counter()
        for part in parts_of(message):  # not the content, which repeats their texts
            _part(part, lambda text: self._mapped(text, count))
        if not count:
            return message
        self._counts[message.id] = count
        parts = [_part(part, self.text) for part in message.parts] if message.parts else message.parts
        return replace(message, content=self.text(message.content), parts=parts)

    def counts_in(self, messages: Iterable[Message]) -> Counter[str]:
        """Return how many paths were mapped in these messages, by the folder that they were mapped from."""
        return sum((self._counts.get(message.id, Counter()) for message in messages), Counter[str]())

    def _mapped(self, text: str, count: Counter[str]) -> str:
        if self._pattern is None or "/" not in text:
            return text

        def mapped(match: re.Match[str]) -> str:
            if match[0] not in self._forms:
                return match[0]
            count[self._folders[match[0]]] += 1
            return self._forms[match[0]]

        return self._pattern.sub(mapped, text)


def _part(part: Part, change: Callable[[str], str]) -> Part:
    return replace(
        part,
        text=change(part.text),
        input=change_texts(part.input, change),
        output=change(part.output),
        ref=change(part.ref),
        data=change_texts(part.data, change),
    )


def _pattern(forms: Sequence[str]) -> re.Pattern[str]:
    longest_first = sorted(set(forms), key=len, reverse=True)
    return re.compile(f"{_BEFORE}(?:{'|'.join(map(re.escape, longest_first))}){_AFTER}")


def _with_tilde(folder: str, home: str) -> str:
    """Return a folder in this user's home as `~/…`; empty if it is elsewhere."""
    return f"~{folder[len(home) :]}" if home.strip("/") and folder.startswith(f"{home}/") else ""


def _with_any_tilde(folder: str) -> str:
    """Return a folder in what looks like a home as `~/…`, because that of another user or machine is unknown."""
    home = _ANY_HOME.match(folder)
    return _with_tilde(folder, home[0]) if home else ""


def _in_json(folder: str) -> str:
    return json.dumps(folder)[1:-1]


def _in_json_with_escaped_slashes(folder: str) -> str:
    return _in_json(folder).replace("/", "\\/")
