r"""What a digest states that never stood in the conversation: names, paths and commands that are no whole words of it.

Apart from the product, which is measured by it: JSON is read by the `json` module, and a word right after a backslash
counts only in a Windows path, because `\n` in a script can be either.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from bench.packet_use import text_parts
from cortext.model.message import Message
from cortext.safety.secrets.masking import mask

_FILE = re.compile(r"- (?P<path>.+?) \((?:read|changed|created|deleted)\)(?:: (?P<names>.+))?")
_RUN = re.compile(r"`(?P<line>.+)`(?: (?:ok|failed|exit -?\d+))?(?: \(\d+ times\))?")
_DONE = re.compile(r"changed (?P<files>.+?)(?: and \d+ more)?(?=; ran |; answered|$)")
_LITERAL = re.compile(r'"(?:[^"\\\n]|\\.)*(?:"|\\?\Z)')
_JSON = re.compile(r'\s*(?:[\[{]\s*)+"')
_COLOUR = re.compile("\x1b\\[[0-9;]*[mK]")
_ESCAPED = re.compile(r"\\+\w+")
_DRIVE = re.compile(r"\b[A-Za-z]:(?:\\{1,2}[\w.$-]+)+")


def stated(digest: str) -> Iterator[tuple[str, str]]:
    """Yield every name, path and command that a digest lists, with its kind."""
    section = ""
    for line in digest.splitlines():
        if line.startswith("- ") and section == "files" and (found := _FILE.fullmatch(line)):
            yield "path", found["path"]
            yield from (("name", name) for name in (found["names"] or "").split(", ") if name)
        elif line.startswith("- ") and section == "commands" and (found := _RUN.fullmatch(line[2:])):
            yield "command", found["line"]
        elif not line.startswith("- "):
            section = next((kind for kind in ("Files", "Commands") if line.startswith(kind)), "").lower()
            label, _, listed = line.partition(": ")
            if label in ("Also named", "Other names"):
                kind = "path" if label == "Also named" else "name"
                yield from ((kind, entry) for entry in listed.split(", "))
            elif label == "Done about it" and (found := _DONE.match(listed)) and not listed.endswith("…"):
                yield from (("path", entry) for entry in found["files"].split(", "))


def violations(digests: Iterable[str], messages: Sequence[Message]) -> list[str]:
    """Return what these digests of the messages state that is no whole word of them."""
    entries = sorted({entry for digest in digests for entry in stated(digest)})
    if not entries:
        return []
    missing = _missing(entries, list(text_parts(messages)))
    if any("[masked" in entry for _, entry in missing):  # as a digest does, before it looks
        missing = _missing(missing, [mask(text).text for text in text_parts(messages)])
    return [f"{kind} {entry}" for kind, entry in missing]


def _missing(entries: Sequence[tuple[str, str]], texts: Sequence[str]) -> list[tuple[str, str]]:
    plain = "\n".join(piece for text in texts for piece in _readings(text))
    words = set(re.findall(r"\w+", plain))
    raw = "\n".join(texts)
    squeezed = " ".join(" ".join(text.replace("\\\n", " ") for text in texts).split())
    return [entry for entry in entries if not _stands(*entry, plain, raw, squeezed, words)]


def _stands(kind: str, entry: str, plain: str, raw: str, squeezed: str, words: set[str]) -> bool:
    if kind == "name":
        return entry in words if entry.isidentifier() else _whole(entry, plain)
    if kind == "path":
        return _whole(entry, plain) or _whole(entry, raw)
    return all(_whole(piece.strip(), squeezed) for piece in entry.split("…") if piece.strip())


def _whole(piece: str, text: str) -> bool:
    start = text.find(piece)
    while start >= 0:
        around = text[max(start - 1, 0) : start] + text[start + len(piece) : start + len(piece) + 1]
        if not re.search(r"[\w\\]", around):
            return True
        start = text.find(piece, start + 1)
    return False


def _readings(text: str) -> Iterator[str]:
    """Yield the decoded text: of JSON its texts, otherwise the text without the words that an escape may begin."""
    text = _COLOUR.sub("", text)
    if "\\" not in text:
        yield text
        return
    for piece in [text] if _JSON.match(text) else text.splitlines():
        if "\\" not in piece:
            yield piece
            continue
        try:
            yield from (part for found in _strings(json.loads(piece)) for part in _readings(found))
            continue
        except ValueError:
            pass
        if '"' in piece and (start := re.search(r'(?<![\w"])[\[{]\s*"', piece)):  # cut, or behind a line number
            inside = piece[start.start() :]
            yield from (part for found in _LITERAL.findall(inside) for part in _readings(_literal(found)))
            piece = piece[: start.start()] + _LITERAL.sub('""', inside)
        yield _ESCAPED.sub(" ", _DRIVE.sub(lambda found: found[0].replace("\\", "/"), piece))


def _literal(quoted: str) -> str:
    try:
        return str(json.loads(quoted if quoted.endswith('"') else quoted.rstrip("\\") + '"', strict=False))
    except ValueError:
        return quoted[1:-1]


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)
