"""OpenCode's config files, changed by hand: JSON, also with comments, of which every other byte stays as it is.

Comments and trailing commas are blanked out for reading, so that every place in the blanked text is the same place
in the real one; what we put in or take out is cut at such places.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

_decoder = json.JSONDecoder()
_SPACE = re.compile(r"\s*")
# Strings first: what looks like a comment inside one is none.
_TOKENS = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING_COMMA = re.compile(r",(?=\s*[}\]])")
_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)


class Member(NamedTuple):
    """A member of an object: its name, where the name begins, where its value begins and ends."""

    name: str
    start: int
    value: int
    end: int


def blanked(text: str) -> str:
    """The text as plain JSON, every character that is left in its place."""

    def hide(match: re.Match[str]) -> str:
        found = match[0]
        return found if found.startswith('"') else re.sub(r"[^\n]", " ", found)

    bare = _TOKENS.sub(hide, text)
    if bare.startswith("\ufeff"):
        bare = " " + bare[1:]
    # Commas inside strings are none: blank the strings, and take only the places from there.
    shadow = _STRINGS.sub(lambda match: '"' + "x" * (len(match[0]) - 2) + '"', bare)
    places = [match.start() for match in _TRAILING_COMMA.finditer(shadow)]
    characters = list(bare)
    for place in places:
        characters[place] = " "
    return "".join(characters)


def parse(text: str) -> Any:
    """What a config file says; ValueError where it is broken."""
    return json.loads(blanked(text)) if text.strip() else {}


def members(text: str, start: int = 0) -> list[Member]:
    """The members of the object that begins at or after a place; the text is blanked and valid."""
    place = _after_space(text, start) + 1
    found: list[Member] = []
    while True:
        place = _after_space(text, place)
        if text[place] == "}":
            return found
        if text[place] == ",":
            place = _after_space(text, place + 1)
        begin = place
        name, place = _decoder.raw_decode(text, place)
        value = _after_space(text, _after_space(text, place) + 1)
        _, place = _decoder.raw_decode(text, value)
        found.append(Member(name, begin, value, place))


def find(text: str, *names: str) -> Member | None:
    """The member at the end of a path of names; None where there is none."""
    bare = blanked(text)
    start, found = 0, None
    for name in names:
        if bare[_after_space(bare, start)] != "{":
            return None
        found = next((member for member in members(bare, start) if member.name == name), None)
        if found is None:
            return None
        start = found.value
    return found


def put(text: str, value: Any, *names: str) -> str:
    """The text with a value at the end of a path, new or in place of the old one."""
    there = find(text, *names)
    if there is not None:
        written = json.dumps(value, indent=2, ensure_ascii=False).replace("\n", "\n" + _indent(text, there.start))
        return text[: there.value] + written + text[there.end :]
    bare = blanked(text)
    above = find(text, *names[:-1]) if len(names) > 1 else None
    if len(names) > 1 and above is None:
        return put(text, {names[-1]: value}, *names[:-1])
    start = _after_space(bare, above.value if above is not None else 0)
    inside = members(bare, start)
    if not inside:
        # On one line below the root: so that taking it out can tell an empty object of the user's from one of ours.
        written = json.dumps(value, indent=2 if above is None else None, ensure_ascii=False)
        return f"{text[: start + 1]}{json.dumps(names[-1])}: {written}{text[start + 1 :]}"
    last = inside[-1]
    indent = _indent(text, last.start)
    written = json.dumps(value, indent=2, ensure_ascii=False).replace("\n", "\n" + indent)
    return f"{text[: last.end]},\n{indent}{json.dumps(names[-1])}: {written}{text[last.end :]}"


def take(text: str, *names: str) -> str:
    """The text without the member at the end of a path; an object that we made for it goes too."""
    there = find(text, *names)
    if there is None:
        return text
    bare = blanked(text)
    above = find(text, *names[:-1]) if len(names) > 1 else None
    start = _after_space(bare, above.value if above is not None else 0)
    inside = members(bare, start)
    if len(inside) == 1:
        if above is not None and "\n" in text[start : there.start]:
            return take(text, *names[:-1])
        return text[: there.start] + text[there.end :]
    place = inside.index(there)
    if place > 0:
        return text[: inside[place - 1].end] + text[there.end :]
    return text[: there.start] + text[inside[1].start :]


def _after_space(text: str, place: int) -> int:
    match = _SPACE.match(text, place)
    return match.end() if match else place


def _indent(text: str, place: int) -> str:
    """The white space that a line begins with, where a member stands first on it."""
    begin = text.rfind("\n", 0, place) + 1
    return text[begin:place] if text[begin:place].isspace() else "  "
