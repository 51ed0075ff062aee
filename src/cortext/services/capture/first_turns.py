"""What was handed to a tool, and whether the tool's own session still holds it after the first turn.

A program may shorten a session while it opens it. So a small record of what the session holds is kept in the state
folder when a conversation is handed over, with a copy of the file if it is the tool's own. The capture that sees the
first turn compares. If nothing is missing, or the tool's records say that the user or the tool shortened it, the record
goes; else it stays, with the copy, and `list` and `doctor` show it until the conversation is handed over or put back.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator

import msgspec

from cortext.config import folders
from cortext.errors import CortextError
from cortext.io import files as fsio
from cortext.model import clock
from cortext.model.first_turn import FirstTurn
from cortext.model.message import ASSISTANT, TOOL_CALL, TOOL_RESULT, Message
from cortext.store.files.layout_paths import NATIVE
from cortext.tools.base import NativeWriter, Rewinds, Transcript, TranscriptSource

MOST = 200  # records: an older one is of a session that nobody continued
_RECORD = "record.json"
_LARGEST = 1 << 28
_COMPLETED_LATER = 3  # of the last messages, a tool may add what was missing when it opens them


class Record(msgspec.Struct, kw_only=True):
    """What was handed over. A message is known by two digests: of its id and of its contents."""

    tool: str
    root: str
    session: str
    key: str
    messages: int
    calls: int
    counted: list[tuple[str, str]]
    rewinds: int = 0  # how often the user had taken messages back before
    others: list[tuple[str, str]] = []  # what the receipt does not count, such as our own block
    result: FirstTurn | None = None  # only if messages were missing


def keep(
    tool: TranscriptSource, transcript: Transcript, root: str, session: str, carried: Collection[str] | None
) -> None:
    """Record what a session holds that a tool is about to open.

    `carried` are the ids of the messages on the receipt, of the tool's own session: then its file is copied, too. None
    for one that we wrote, which holds nothing else but our block.
    """
    forget_of(tool.name, root, session)
    counted, others, calls = [], [], 0
    for message in tool.read(transcript):
        if _counts(message, carried):
            counted.append(_digests(message))
            calls += len(message.parts_of(TOOL_CALL))
        else:
            others.append(_digests(message))
    folder = _folder(tool.name, transcript.key)
    fsio.ensure_folder(folder)
    if carried is not None:
        tool.copy(transcript, os.path.join(folder, NATIVE))
    record = Record(
        tool=tool.name,
        root=root,
        session=session,
        key=transcript.key,
        messages=len(counted),
        calls=calls,
        rewinds=_rewinds(tool, transcript),
        counted=counted,
        others=others,
    )
    _store(record)
    _keep_newest()


def _counts(message: Message, carried: Collection[str] | None) -> bool:
    if carried is not None:
        return message.id in carried
    return not (message.extra and message.extra.get("resume_block"))


def judge(tool: TranscriptSource, transcript: Transcript) -> tuple[Record, FirstTurn] | None:
    """Return the result for a session that was handed to a tool, once a turn was held in it; None before, and after.

    None as well if the tool's records say that the user or the tool shortened it, or cannot be read as a whole.
    """
    record = _load(os.path.join(_folder(tool.name, transcript.key), _RECORD))
    if record is None or record.result is not None or (record.tool, record.key) != (tool.name, transcript.key):
        return None
    reading = tool.read(transcript)
    missing, has_turn = _compare(record, reading)
    if reading.counts.damaged or not has_turn:
        return None
    if missing and _says_why(tool, transcript, record.rewinds):
        forget(tool.name, transcript.key)
        return None
    held = record.messages - missing
    result = FirstTurn(tool=tool.name, key=transcript.key, messages=record.messages, held=held, at=clock.now())
    if result.is_short:
        record.result = result
        _store(record)
    else:
        forget(tool.name, transcript.key)
    return record, result


def _compare(record: Record, messages: Iterable[Message]) -> tuple[int, bool]:
    """Return how many of the counted messages are gone, and whether the model has answered since."""
    left = Counter(digest for _, digest in record.counted)
    others = Counter(digest for _, digest in record.others)
    ids = {identity for identity, _ in (*record.counted, *record.others)}
    late = dict(record.counted[-_COMPLETED_LATER:])
    seen, has_turn = set(), False
    for message in messages:
        identity, digest = _digests(message)
        seen.add(identity)
        if left[digest]:
            left[digest] -= 1
        elif others[digest]:
            others[digest] -= 1
        elif message.role == ASSISTANT and identity not in ids:
            has_turn = True
    for identity, digest in late.items():
        if left[digest] and identity in seen:
            left[digest] -= 1
    return left.total(), has_turn


def _says_why(tool: TranscriptSource, transcript: Transcript, rewinds: int) -> bool:
    """Whether the tool's own records say that the session was shortened since, by a rewind or a compaction."""
    if _rewinds(tool, transcript) > rewinds:
        return True
    return isinstance(tool, NativeWriter) and tool.withheld(transcript) is None


def _rewinds(tool: TranscriptSource, transcript: Transcript) -> int:
    return tool.rewinds(transcript) if isinstance(tool, Rewinds) else 0


def _digests(message: Message) -> tuple[str, str]:
    calls, results = len(message.parts_of(TOOL_CALL)), len(message.parts_of(TOOL_RESULT))
    contents = f"{message.role}\0{' '.join(message.text.split())}\0{calls}\0{results}"
    return _digest(message.id), _digest(contents)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


# ── the results ──────────────────────────────────────────────────────────────────────────────────────


def what_to_do(record: Record) -> str:
    """Return the command that puts a conversation back into the tool."""
    return f"cortext restore {record.session} --into {record.tool}"


def alarm(record: Record, title: str) -> str:
    """Return what a tool has lost, what was kept, and what to do; `title` is the tool's."""
    kept = " and a copy of its file" if copy_of(record.tool, record.key) else ""
    lost = record.result.sentence(title) if record.result else ""
    return f"{record.session}: {lost}; every message is kept here{kept}: put it back with `{what_to_do(record)}`"


def shortened() -> list[Record]:
    """Return what was handed over and is no longer whole in its tool, until it is put back or handed over again."""
    return [record for record in _all() if record.result is not None and record.result.is_short]


def forget_of(tool: str, root: str, session: str) -> None:
    """Remove the records of a conversation in a tool: it was put back there, or is handed over again."""
    for record in _all():
        if (record.tool, record.root, record.session) == (tool, root, session):
            forget(record.tool, record.key)


def forget(tool: str, key: str) -> None:
    """Remove the record of a tool's session, with the copy."""
    folder = _folder(tool, key)
    if os.path.lexists(folder):
        fsio.remove_tree(folder)


# ── files ────────────────────────────────────────────────────────────────────────────────────────────


def _top() -> str:
    return os.path.join(folders.state(), "handed-over")


def _folder(tool: str, key: str) -> str:
    return os.path.join(_top(), f"{tool}-{_digest(key)}")


def copy_of(tool: str, key: str) -> str:
    """Return the copy that was made of a tool's own file before the tool opened it; empty if there is none."""
    path = os.path.join(_folder(tool, key), NATIVE)
    return path if os.path.isfile(path) else ""


def _store(record: Record) -> None:
    fsio.replace_file(os.path.join(_folder(record.tool, record.key), _RECORD), [msgspec.json.encode(record)])


def _load(path: str) -> Record | None:
    try:
        return msgspec.json.decode(fsio.read_file(path, _LARGEST), type=Record)
    except (OSError, CortextError, msgspec.MsgspecError):
        return None


def _names() -> list[str]:
    try:
        return os.listdir(_top())
    except OSError:
        return []


def _all() -> Iterator[Record]:
    for name in sorted(_names()):
        record = _load(os.path.join(_top(), name, _RECORD))
        if record is not None:
            yield record


def _keep_newest() -> None:
    names = _names()
    if len(names) > MOST:
        paths = sorted((os.path.join(_top(), name) for name in names), key=os.path.getmtime)
        for path in paths[: len(names) - MOST]:
            fsio.remove_tree(path)
