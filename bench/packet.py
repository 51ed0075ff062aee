"""What a packet keeps of a conversation: how much of what is used after a cut it has, and whether it had that."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import statistics
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest import mock

from bench.common import parser_of, print_table, work_folder
from cortext.model import tokens
from cortext.model.message import ASSISTANT, TOOL_CALL, TOOL_RESULT, USER, Message
from cortext.model.session import Session
from cortext.model.threads import thread
from cortext.safety.secrets.masking import mask
from cortext.services.resume.history import History
from cortext.services.resume.packet import build, facts
from cortext.store.files.workspace import WorkspaceStore
from cortext.tools.base import TranscriptSource
from cortext.tools.registry import load_all

_FILE_KEYS = ("file_path", "filePath", "absolute_path", "notebook_path", "filename", "path")
_COMMAND_KEYS = ("command", "cmd")
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)
_WORD = re.compile(r"[A-Za-z_]\w{3,}")
_INNER = re.compile(r"[A-Za-z0-9]_+[A-Za-z0-9]|[a-z0-9][A-Z]")
_PATH = re.compile(r"(?<![\w:/.])[\w.~@-]*(?:/[\w@-][\w.@-]*)+(?<!\.)\.[A-Za-z]\w{0,5}(?![\w./])")
_UNPREFIXED = re.compile(r"^\s*(?:cd\s+\S+\s*(?:&&|;)\s*|\w+=\S*\s+)+")
_ENDS = re.compile(r"\s*(?:\d?>{1,2}|<|\||&&|;|\n)")
_FILE = re.compile(r"- (?P<path>.+?) \((?:read|changed|created|deleted)\)(?:: (?P<names>.+))?")
_RUN = re.compile(r"`(?P<line>.+)`(?: (?:ok|failed|exit -?\d+))?(?: \(\d+ times\))?")
_DONE = re.compile(r"changed (?P<files>.+?)(?: and \d+ more)?(?=; ran |; answered|$)")
_LITERAL = re.compile(r'"(?:[^"\\\n]|\\.)*(?:"|\\?\Z)')
_JSON = re.compile(r'\s*(?:[\[{]\s*)+"')
_COLOUR = re.compile("\x1b\\[[0-9;]*[mK]")
_ESCAPED = re.compile(r"\\+\w+")
_DRIVE = re.compile(r"\b[A-Za-z]:(?:\\{1,2}[\w.$-]+)+")
SHARES = (0.5, 0.75)  # where a conversation is cut that its tool did not compact
LEAST_TURNS = 4  # a conversation with fewer turns of the user is cut by its messages
LEAST_MESSAGES = 12
ASKED = 160  # characters of the last ask that have to be in the packet
NOTICES = ("[Request interrupted", "Operation stopped", "<task-notification")  # what tools write in the user's name
RESAMPLES = 2_000
SHOWN = 20  # of what a digest states and the conversation never had
KINDS = ("files", "symbols", "commands", "last ask")


class Use(NamedTuple):
    """What was used, by kind."""

    files: frozenset[str]
    symbols: frozenset[str]
    commands: frozenset[str]


def used_in(messages: Iterable[Message]) -> Use:
    """Return what the model itself used: in its texts and its tool calls."""
    files: set[str] = set()
    symbols: set[str] = set()
    commands: set[str] = set()
    for message in messages:
        if message.role == ASSISTANT:
            symbols |= symbols_in(message.content)
        for part in message.parts or ():
            if part.type == TOOL_CALL:
                files |= files_of(part.input)
                commands |= commands_of(part.input)
                for text in _strings(part.input):
                    symbols |= symbols_in(text)
    return Use(frozenset(files), frozenset(symbols), frozenset(commands))


def text_of(messages: Iterable[Message]) -> str:
    """Return all that was said, called and answered, for asking whether something occurred in it."""
    return "\n".join(text_parts(messages))


def text_parts(messages: Iterable[Message]) -> Iterator[str]:
    """Yield each text that was said, called or answered."""
    for message in messages:
        yield message.content
        for part in message.parts or ():
            if part.type == TOOL_CALL:
                yield from _strings(part.input)
            elif part.type == TOOL_RESULT:
                yield part.output


def symbols_in(text: str) -> set[str]:
    """Return the words that only code has."""
    return {word for word in _WORD.findall(text) if _INNER.search(word)}


def files_of(call: Any) -> set[str]:
    """Return the paths of files that the input of a tool call names."""
    found: set[str] = set()
    if isinstance(call, dict):
        for key in _FILE_KEYS:
            value = call.get(key)
            # `path` is also the folder in which a search begins.
            if isinstance(value, str) and value and (key != "path" or "." in value.rpartition("/")[2].strip(".")):
                found.add(value)
        for key in _COMMAND_KEYS:
            found |= set(_PATH.findall(_line(call.get(key))))
    for text in _strings(call):
        found |= set(_PATCHED.findall(text))
    return found


def commands_of(call: Any) -> set[str]:
    """Return the command lines that a tool call runs, each reduced to its first simple command."""
    if not isinstance(call, dict):
        return set()
    lines = (_UNPREFIXED.sub("", _line(call.get(key))) for key in _COMMAND_KEYS)
    return {short for line in lines if len(short := " ".join(_ENDS.split(line, maxsplit=1)[0].split())) > 3}


def _line(value: Any) -> str:
    if isinstance(value, list):
        words = [word for word in value if isinstance(word, str)]
        return words[-1] if words[:2] in (["bash", "-lc"], ["bash", "-c"], ["sh", "-c"]) else " ".join(words)
    return value if isinstance(value, str) else ""


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)


def distinct_name(path: str, others: Iterable[str]) -> str:
    """Return the shortest end of a path, of whole names, that no other of these paths ends with."""
    names = path.strip("./").split("/")
    rivals = [f"/{other.strip('./')}" for other in others]
    for count in range(1, len(names)):
        ending = f"/{'/'.join(names[-count:])}"
        # A relative path and an absolute one that ends with it are the same file.
        if all(_same(f"/{path.strip('./')}", rival) for rival in rivals if rival.endswith(ending)):
            return ending[1:]
    return path.strip("./")


def _same(path: str, other: str) -> bool:
    return path.endswith(other) or other.endswith(path)


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
            yield from (part for found in _keys_and_strings(json.loads(piece)) for part in _readings(found))
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


def _keys_and_strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from _keys_and_strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _keys_and_strings(inner)


class Cut(NamedTuple):
    """A place in a conversation: what precedes it, what follows, and the tool's summary if it compacted there."""

    before: list[Message]
    after: list[Message]
    summary: str


def run_packet() -> None:
    """What a packet keeps: how much of what is used after a cut is in the packet of what precedes it.

    python -m bench packet FOLDER… [--tokens 2000 4000 8000] [--half dev|held] [--json]

    Every transcript of a known tool below the folders is cut where its tool compacted it, otherwise at half and three
    quarters of the user's turns. Counted are the files, symbols and commands that the model used after the cut, up to
    the next compaction, if they had occurred before it anywhere: in a message, a tool call or a result. Each share is
    the mean over the conversations, with a bootstrap interval of 95 %. At compactions the tool's own summary is the
    baseline, and "summary and digest" is what the model has if a hook gives it back what the summary dropped. `--half`
    takes one random half of the conversations, so that the other stays aside. Below the table: what a digest lists and
    the conversation never had as a whole word of its decoded text.
    """
    parser = parser_of(run_packet)
    parser.add_argument("folders", nargs="+", metavar="FOLDER")
    parser.add_argument("--tokens", nargs="+", type=int, default=[2_000, 4_000, 8_000])
    parser.add_argument("--half", choices=("dev", "held"), default="")
    parser.add_argument("--json", action="store_true", help="one JSON line per cut instead of the table")
    options = parser.parse_args()
    measured: list[dict[str, Any]] = []
    for path, tool in transcripts(options.folders):
        if options.half and half_of(path) != options.half:
            continue
        for number, cut in enumerate(cuts(tool, path)):
            row = {"conversation": os.path.basename(path), "cut": number, "compaction": bool(cut.summary)}
            measured.append(row | measure(cut, options.tokens))
            if options.json:
                print(json.dumps(measured[-1]), flush=True)
    if not measured:
        sys.exit("no conversation of a known tool is long enough")
    if not options.json:
        report(measured)


def transcripts(folders: Sequence[str]) -> Iterator[tuple[str, TranscriptSource]]:
    """Yield every file that a tool recognises as its transcript, in a fixed order."""
    tools = load_all()
    for folder in folders:
        paths = sorted(os.path.join(base, name) for base, _, names in os.walk(folder) for name in names)
        for path in paths:
            known = next((tool for tool in tools if tool.transcript_at(path) is not None), None)
            if known is not None:
                yield path, known


def half_of(path: str) -> str:
    """Return the half that a conversation belongs to: by its name, so that it is the same in every run."""
    return "dev" if hashlib.sha256(os.path.basename(path).encode()).digest()[0] % 2 else "held"


def cuts(tool: TranscriptSource, path: str) -> Iterator[Cut]:
    """Yield the cuts of a conversation: where the tool compacted it, otherwise by its turns."""
    transcript = tool.transcript_at(path)
    assert transcript is not None
    reading = tool.read(transcript)
    messages: list[Message] = []
    summaries: dict[str, str] = {}  # by the id of the first message after the compaction
    known = ""
    for message in reading:
        if reading.about.summary != known and not message.aside:
            known = summaries[message.id] = reading.about.summary
        messages.append(message)
    talk = [message for message in thread(messages) if message.content or message.parts]
    if len(talk) < LEAST_MESSAGES:
        return
    at = {index: summaries[message.id] for index, message in enumerate(talk) if index and message.id in summaries}
    if not at:
        turns = [index for index, message in enumerate(talk) if message.role == USER]
        candidates = turns if len(turns) >= LEAST_TURNS else list(range(len(talk)))
        at = {candidates[int(len(candidates) * share)]: "" for share in SHARES}
    ends = [*sorted(at)[1:], len(talk)] if any(at.values()) else [len(talk)] * len(at)
    for start, end in zip(sorted(at), ends, strict=True):
        yield Cut(talk[:start], talk[start:end], at[start])


def measure(cut: Cut, budgets: Sequence[int]) -> dict[str, Any]:
    """Return the shares that each packet has, and at a compaction those of the tool's own summary."""
    earlier = text_of(cut.before)
    names = {path: distinct_name(path, files) for files in [used_in([*cut.before, *cut.after]).files] for path in files}
    used = used_in(cut.after)
    wanted = Use(
        frozenset(names[path] for path in used.files if _has(earlier, names[path])),
        frozenset(symbol for symbol in used.symbols if _has(earlier, symbol)),
        frozenset(command for command in used.commands if command in earlier),
    )
    ask = last_ask(cut.before)
    result: dict[str, Any] = {
        "wanted": {kind: len(values) for kind, values in zip(KINDS, wanted, strict=False)},
        "packets": {},
    }
    with stored(cut.before) as (session, history):
        digests = []
        for budget in budgets:
            packet = build(session, history, budget=budget)
            result["packets"][str(budget)] = shares(packet.text(), wanted, ask)
            digests.append(packet.context.partition("Facts of the conversation")[2])
        if cut.summary:
            result["summary"] = shares(cut.summary, wanted, ask)
            given_back = {budget: facts(history, len(history), budget, known=cut.summary) for budget in budgets}
            digests += given_back.values()
            result["restored"] = {
                str(budget): shares(f"{cut.summary}\n{text}", wanted, ask) for budget, text in given_back.items()
            }
        result["digests"] = sum(map(bool, digests))
        result["never stood there"] = violations(digests, cut.before)
    return result


def shares(text: str, wanted: Use, ask: str) -> dict[str, Any]:
    """Return the share of each kind that a text has (None if nothing was wanted), and its size."""
    squeezed = " ".join(text.split())
    return {
        "tokens": tokens.estimate(text),
        **{
            kind: round(sum(_has(squeezed, value) for value in values) / len(values), 4) if values else None
            for kind, values in zip(KINDS, wanted, strict=False)
        },
        "last ask": float(ask in squeezed) if ask else None,
    }


def last_ask(messages: Sequence[Message]) -> str:
    """Return the beginning of the user's last message."""
    said = (message.content.strip() for message in reversed(messages) if message.role == USER)
    asks = (text for text in said if text and not text.startswith(NOTICES))
    return " ".join(next(asks, "").split())[:ASKED].strip()


@contextmanager
def stored(messages: Sequence[Message]) -> Iterator[tuple[Session, History]]:
    """Store these messages as a session of their own, for the product to build its packets from."""
    with work_folder() as folder, mock.patch("os.fsync"):
        store = WorkspaceStore(folder)
        store.create(Session(id="talk"))
        store.append("talk", *(_standalone(message) for message in messages))
        session = store.peek("talk")
        yield session, History(store, session)


def _standalone(message: Message) -> Message:
    return Message(role=message.role, content=message.content, parts=message.parts, timestamp=message.timestamp)


def _has(text: str, name: str) -> bool:
    """Whether a text has this name as a whole word."""
    start = text.find(name)
    while start >= 0:
        around = text[start - 1 : start] + text[start + len(name) : start + len(name) + 1]
        if not re.search(r"\w", around):
            return True
        start = text.find(name, start + 1)
    return False


def report(measured: Sequence[dict[str, Any]]) -> None:
    """Print the table."""
    compacted = [row for row in measured if row["compaction"]]
    of = len({row["conversation"] for row in measured})
    print(f"\n{of} conversations, {len(measured)} cuts, {len(compacted)} of them at a compaction.")
    print("Mean over conversations (95 % bootstrap interval).\n")
    rows = []
    for title, chosen in (("", measured), (", at compactions", compacted)):
        for budget in measured[0]["packets"]:
            found = [(row["conversation"], row["packets"][budget]) for row in chosen]
            rows.append((f"packet of {int(budget):,}{title}", *columns(found)))
        if not compacted:
            break
    if compacted:
        rows.append(("the tool's own summary", *columns([(row["conversation"], row["summary"]) for row in compacted])))
        for budget in measured[0]["packets"]:
            found = [(row["conversation"], row["restored"][budget]) for row in compacted]
            rows.append((f"summary and digest of {int(budget):,}", *columns(found)))
    print_table(("", "tokens", *KINDS), rows)
    invented = [entry for row in measured for entry in row["never stood there"]]
    digests, cuts_with = (
        sum(row["digests"] for row in measured),
        sum(bool(row["never stood there"]) for row in measured),
    )
    print(f"\n{digests} digests; what they state and what never stood in the conversation (target 0): {len(invented)}")
    print(f"names, paths and commands, at {cuts_with} of the cuts.")
    print("".join(f"  {entry}\n" for entry in invented[:SHOWN]), end="")


def columns(found: Sequence[tuple[str, dict[str, Any]]]) -> list[str]:
    """Return the cells of one row: the size, then each share."""
    size = statistics.mean(shares["tokens"] for _, shares in found)
    return [f"{size:,.0f}", *(_cell(found, kind) for kind in KINDS)]


def _cell(found: Sequence[tuple[str, dict[str, Any]]], kind: str) -> str:
    by_conversation: dict[str, list[float]] = {}
    for name, values in found:
        if values[kind] is not None:
            by_conversation.setdefault(name, []).append(values[kind])
    means = [statistics.mean(values) for values in by_conversation.values()]
    if not means:
        return "–"
    drawn = random.Random(1)
    resampled = sorted(statistics.mean(drawn.choices(means, k=len(means))) for _ in range(RESAMPLES))
    low, high = resampled[RESAMPLES // 40], resampled[-RESAMPLES // 40 - 1]
    return f"{statistics.mean(means):.3f} ({low:.2f}–{high:.2f})"
