"""What was handed to a tool, and whether the tool's own session still holds it after the first turn.

A program may shorten a session while it opens it. So a small record of what the session holds is kept in the state
folder when a conversation is handed over, with a copy of the file if it is the tool's own. The capture that sees the
first turn compares. If the file is gone or smaller than it was, the end of the resume and, for a day, `list`, `doctor`,
`sync` and `watch` do, too. If nothing is missing, or the tool's records say that the user or the tool shortened it, the
record goes; else it stays, with the copy, and is shown until the conversation is handed over or put back.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from cortext.config import folders
from cortext.errors import CortextError
from cortext.io import durable
from cortext.model import clock
from cortext.model.message import ASSISTANT, TOOL_CALL, TOOL_RESULT, Message
from cortext.model.session import FirstTurn
from cortext.store.files.layout_paths import NATIVE

if TYPE_CHECKING:
    from cortext.tools.base import Transcript, TranscriptSource

MOST = 200  # records: an older one is of a session that nobody continued
_RECORD = "record.json"
_LARGEST = 1 << 28
_COMPLETED_LATER = 3  # of the last messages, a tool may add what was missing when it opens them
_OPENED_S = 86_400.0  # a session that is shortened later, without an answer, was not shortened by the resume
_WRITTEN_S = 5.0  # a file that changed since may be in the middle of being written


class Late(msgspec.Struct, frozen=True):
    """One of the last messages: what must still be there of it if a tool has added to it."""

    contents: str  # its digest among those that are counted
    length: int  # of its text
    text: str  # the digest of that
    calls: int
    results: int

    def is_continued_by(self, message: Message) -> bool:
        """Whether a message begins as this one did, and has no fewer calls and results."""
        has_parts = (
            len(message.parts_of(TOOL_CALL)) >= self.calls and len(message.parts_of(TOOL_RESULT)) >= self.results
        )
        return has_parts and _digest(_text_of(message)[: self.length]) == self.text


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
    late: dict[str, Late] = {}  # the last of what is counted, by the digest of the id
    path: str = ""
    size: int = 0
    project: str = ""
    at: str = ""
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
    late: deque[tuple[str, Late]] = deque(maxlen=_COMPLETED_LATER)
    for message in tool.read(transcript):
        if _counts(message, carried):
            counted.append(_digests(message))
            late.append(_late(message))
            calls += len(message.parts_of(TOOL_CALL))
        else:
            others.append(_digests(message))
    folder = _folder(tool.name, transcript.key)
    durable.ensure_folder(folder)
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
        late=dict(late),
        path=transcript.path,
        size=os.stat(transcript.path).st_size,
        project=transcript.project,
        at=clock.now(),
    )
    _store(record)
    _keep_newest()


def _counts(message: Message, carried: Collection[str] | None) -> bool:
    if carried is not None:
        return message.id in carried
    return not (message.extra and message.extra.get("resume_block"))


def judge(tool: TranscriptSource, transcript: Transcript) -> tuple[Record, FirstTurn] | None:
    """Return the result for a session that was handed to a tool: once a turn was held in it, or it is shorter.

    None before and after, if the tool's records say that the user or the tool shortened it, and if nothing is missing
    in a session that cannot be read as a whole.
    """
    record = record_of(tool.name, transcript.key)
    return _judge(record, tool, transcript) if record is not None else None


def _judge(
    record: Record, tool: TranscriptSource, transcript: Transcript | None, *, has_ended: bool = False
) -> tuple[Record, FirstTurn] | None:
    """Judge a session, of which the tool has no transcript any more if that is None.

    Without an answer, one that is shorter may be in the middle of being written, unless the tool `has_ended`.
    """
    path, missing, has_turn, is_damaged = record.path, record.messages, False, False
    if transcript is not None:
        path, reading = transcript.path, tool.read(transcript)
        missing, has_turn = _compare(record, reading)
        is_damaged = bool(reading.counts.damaged)
    if not has_turn and not (missing and (has_ended or (_is_recent(record) and _is_settled(path)))):
        return None
    if is_damaged and not missing:
        return None
    if missing and transcript is not None and _says_why(tool, transcript, record.rewinds):
        if has_turn:
            forget(record.tool, record.key)
        return None
    result = FirstTurn(
        tool=record.tool,
        key=record.key,
        messages=record.messages,
        held=record.messages - missing,
        at=clock.now(),
        answered=has_turn,
    )
    if result.is_short:
        record.result = result
        _store(record)
    else:
        forget(record.tool, record.key)
    return record, result


def judge_smaller(tool_of: Callable[[str], TranscriptSource]) -> None:
    """Judge what was handed over lately and whose file is gone or smaller: no capture may see that."""
    for record in _all():
        if _is_to_judge(record):
            _judge_quietly(record, tool_of)


def _is_to_judge(record: Record) -> bool:
    return record.result is None and _is_recent(record) and _is_smaller(record)


def judge_ended(tool_of: Callable[[str], TranscriptSource], tool: str, key: str) -> None:
    """Judge a session that the tool has just closed."""
    record = record_of(tool, key)
    if record is not None:
        _judge_quietly(record, tool_of, has_ended=True)


def _judge_quietly(record: Record, tool_of: Callable[[str], TranscriptSource], *, has_ended: bool = False) -> None:
    try:
        tool = tool_of(record.tool)
        listed = tool.transcripts(record.project or None)
        transcript = next((item for item in listed if item.key == record.key), None)
        if transcript is not None or _is_smaller(record):
            _judge(record, tool, transcript, has_ended=has_ended)
    except Exception:  # noqa: BLE001 (another package's adapter may raise anything; what cannot be read is told elsewhere)
        return


def _is_recent(record: Record) -> bool:
    return record.at > clock.from_epoch(time.time() - _OPENED_S)


def _is_settled(path: str) -> bool:
    """Whether a file, or the folder that it is gone from, has not changed for a while."""
    while not os.path.lexists(path) and os.path.dirname(path) != path:
        path = os.path.dirname(path)
    try:
        return os.path.getmtime(path) < time.time() - _WRITTEN_S
    except OSError:
        return False  # it has just gone


def _is_smaller(record: Record) -> bool:
    """Whether the file of what was handed over is gone, or smaller than it was."""
    try:
        return bool(record.path) and os.stat(record.path).st_size < record.size
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False


def _compare(record: Record, messages: Iterable[Message]) -> tuple[int, bool]:
    """Return how many of the counted messages are gone, and whether the model has answered since."""
    left = Counter(digest for _, digest in record.counted)
    others = Counter(digest for _, digest in record.others)
    ids = {identity for identity, _ in (*record.counted, *record.others)}
    continued, has_turn = [], False
    for message in messages:
        identity, digest = _digests(message)
        late = record.late.get(identity)
        if left[digest]:
            left[digest] -= 1
        elif others[digest]:
            others[digest] -= 1
        elif late is not None and late.is_continued_by(message):
            continued.append(late.contents)
        elif message.role == ASSISTANT and identity not in ids:
            has_turn = True
    left -= Counter(continued)  # never below zero
    return left.total(), has_turn


def _says_why(tool: TranscriptSource, transcript: Transcript, rewinds: int) -> bool:
    """Whether the tool's own records say that the session was shortened since, by a rewind or a compaction."""
    if _rewinds(tool, transcript) > rewinds:
        return True
    from cortext.tools.base import NativeWriter  # every list imports this module

    return isinstance(tool, NativeWriter) and tool.withheld(transcript) is None


def _rewinds(tool: TranscriptSource, transcript: Transcript) -> int:
    from cortext.tools.base import Rewinds

    return tool.rewinds(transcript) if isinstance(tool, Rewinds) else 0


def _digests(message: Message) -> tuple[str, str]:
    calls, results = len(message.parts_of(TOOL_CALL)), len(message.parts_of(TOOL_RESULT))
    contents = f"{message.role}\0{_text_of(message)}\0{calls}\0{results}"
    return _digest(message.id), _digest(contents)


def _late(message: Message) -> tuple[str, Late]:
    identity, contents = _digests(message)
    text, calls, results = _text_of(message), len(message.parts_of(TOOL_CALL)), len(message.parts_of(TOOL_RESULT))
    return identity, Late(contents, len(text), _digest(text), calls, results)


def _text_of(message: Message) -> str:
    return " ".join(message.text.split())


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
    return [record for record in _all() if _is_short(record)]


def _is_short(record: Record) -> bool:
    return record.result is not None and record.result.is_short


def forget_of(tool: str, root: str, session: str) -> None:
    """Remove the records of a conversation in a tool: it was put back there, or is handed over again."""
    for record in _all():
        if (record.tool, record.root, record.session) == (tool, root, session):
            forget(record.tool, record.key)


def forget(tool: str, key: str) -> None:
    """Remove the record of a tool's session, with the copy."""
    folder = _folder(tool, key)
    if os.path.lexists(folder):
        durable.remove_tree(folder)


# ── files ────────────────────────────────────────────────────────────────────────────────────────────


def _top() -> str:
    return os.path.join(folders.state(), "handed-over")


def _folder(tool: str, key: str) -> str:
    return os.path.join(_top(), f"{tool}-{_digest(key)}")


def copy_of(tool: str, key: str) -> str:
    """Return the copy that was made of a tool's own file before the tool opened it; empty if there is none."""
    path = os.path.join(_folder(tool, key), NATIVE)
    return path if os.path.isfile(path) else ""


def record_of(tool: str, key: str) -> Record | None:
    """Return the record of a tool's session that was handed over and is not judged yet; None if there is none."""
    record = _load(os.path.join(_folder(tool, key), _RECORD))
    is_waiting = record is not None and record.result is None and (record.tool, record.key) == (tool, key)
    return record if is_waiting else None


def _store(record: Record) -> None:
    durable.replace_file(os.path.join(_folder(record.tool, record.key), _RECORD), [msgspec.json.encode(record)])


def _load(path: str) -> Record | None:
    try:
        return msgspec.json.decode(durable.read_file(path, _LARGEST), type=Record)
    except (OSError, CortextError, msgspec.MsgspecError):
        return None


def _names() -> list[str]:
    try:
        return os.listdir(_top())
    except OSError:
        return []


def may_be_short() -> bool:
    """Whether anything that was handed over lately is no longer whole in its tool, or has yet to be judged."""
    return any(_is_short(record) or _is_to_judge(record) for record in _all())


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
            durable.remove_tree(path)
