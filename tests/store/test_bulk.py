"""Bulk creation: the same sessions as one by one, each complete or missing, whatever fails on the way."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event, Thread, current_thread, main_thread
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortext.errors import InvalidMessage, SessionBusy, SessionExists, WriteFailed
from cortext.io import new_files
from cortext.model.message import ROLES, Message, Part, plain
from cortext.model.session import Change, Session
from cortext.store.capabilities import Publication
from cortext.store.files import bulk as bulk_module
from cortext.store.files.bulk import FileBulk, NewLog
from cortext.store.files.layout_paths import INCOMING
from cortext.store.files.lines import encode_message
from cortext.store.files.log import complete
from cortext.store.files.workspace import WorkspaceStore
from cortext.testing.table import every_row
from tests.store.crash.actor import make_message
from tests.store.crash.faults import Counting, Dead, FailAt, KillAt, ShortWrites, installed
from tests.store.crash.power import STYLES, Op, Recorder, after_power_cut
from tests.store.crash.replay import cuts

LONG = 2048
NAMES = ("one", "two", "three")
TRANSCRIPT = __file__  # any file will do
DAYS = {"one": "2026-01-30", "two": "2026-01-31", "three": "2026-01-31"}


def messages(name: str) -> list[Message]:
    sizes = (60, 9_000, 300)
    found = [make_message(f"{name}-{number}", size, id=f"{name}-{number}") for number, size in enumerate(sizes)]
    for message in found:
        message.timestamp = "2026-01-31T09:30:00.000Z"
    return [complete(message, seq) for seq, message in enumerate(found)]


def new(name: str) -> Session:
    return Session(id=name, title="first", status="paused", created_at=f"{DAYS[name]}T09:00:00Z", agent="qa")


def build(bulk: FileBulk, name: str) -> None:
    draft = bulk.begin(name)
    first, *rest = messages(name)
    draft.write([[first], rest])
    draft.finish(new(name), Change(title="last", summary="summary"))
    new_files.mirror_file(TRANSCRIPT, draft.copy, draft.later)
    bulk.ready(draft)


class LazyFuture:
    """Stands in for a future: the work is done when the result is requested."""

    def __init__(self, work: Callable[[], None]) -> None:
        self.result = work


class NoThreads:
    """Stands in for the executor that flushes drafts."""

    def __init__(self, size: int) -> None:
        assert size > 0

    def submit(self, work: Callable[[], None]) -> LazyFuture:
        return LazyFuture(work)

    def shutdown(self, *, cancel_futures: bool) -> None:
        """Do nothing: there are no threads to wait for."""


@pytest.fixture
def in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flush drafts at the end and in this thread: the n-th system call is always the same, and can be a kill."""
    monkeypatch.setattr(bulk_module, "ThreadPoolExecutor", NoThreads)


@pytest.fixture(params=["in order", "in threads"])
def flushed(request: pytest.FixtureRequest) -> None:
    """How drafts are flushed: at the end, or in threads while others are built."""
    if request.param == "in order":
        request.getfixturevalue("in_order")


def create_all(root: str, done: list[str], names: Sequence[str] = NAMES) -> Publication:
    """Build and publish, as an import does; acknowledged ids are added to `done`."""
    bulk = WorkspaceStore(root).bulk()
    assert isinstance(bulk, FileBulk)
    try:
        for name in names:
            build(bulk, name)
        return bulk.publish(done.extend)
    finally:
        bulk.close()


def check_complete(root: str, acknowledged: Sequence[str], *, native: bool = True) -> list[str]:
    """Check that every session is complete and no acknowledged one is missing; return the ids."""
    store = WorkspaceStore(root)
    found = sorted(session.id for session in store.sessions())
    assert set(acknowledged) <= set(found), "an acknowledged session is missing"
    for name in found:
        session = store.get(name)
        assert session.damage == 0 and store.check(name) == []
        assert (session.title, session.summary, session.status, session.agent) == ("last", "summary", "paused", "qa")
        assert [plain(message) for message in store.read(name)] == messages(name)
        if native:
            assert Path(session.path, ".session", "native").read_bytes() == Path(TRANSCRIPT).read_bytes()
    return found


# ── the same as one by one ───────────────────────────────────────────────────────────────────────────


@pytest.mark.req("STORE-03", "STORE-10")
def test_bulk_creation_writes_the_same_files_as_one_by_one(tmp_path: Path) -> None:
    done: list[str] = []
    assert create_all(str(tmp_path / "bulk"), done) == Publication(list(NAMES), [], {})
    single = WorkspaceStore(str(tmp_path / "single"))
    for name in NAMES:
        single.create(new(name))
        with single.open(name) as writer:
            writer.append(*messages(name))
            writer.update(Change(title="last", summary="summary"))
    assert done == list(NAMES)
    assert check_complete(str(tmp_path / "bulk"), NAMES) == check_complete(
        str(tmp_path / "single"), NAMES, native=False
    )
    for name in NAMES:
        folder = Path("conversations", DAYS[name], name, ".session")
        for file in ("messages.jsonl", "session.json"):
            path = tmp_path / "bulk" / folder / file
            assert path.read_bytes() == (tmp_path / "single" / folder / file).read_bytes()
            assert path.stat().st_mode & 0o777 == 0o600
        assert (tmp_path / "bulk" / folder).stat().st_mode & 0o777 == 0o700
    assert not (tmp_path / "bulk" / ".workspace" / "state" / INCOMING).exists()
    changes = (tmp_path / "bulk" / ".workspace" / "state" / "changes").read_text(encoding="ascii")
    assert sorted(changes.split()) == sorted(NAMES)  # so that the list and the search find them


any_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
some_text = st.text() | st.text(min_size=1).map(lambda text: (text * LONG)[: LONG + len(text)])
some_parts = st.lists(
    st.builds(
        Part,
        type=st.sampled_from(("text", "thinking", "tool_call", "tool_result", "image", "odd")),
        text=some_text,
        id=st.text(max_size=5),
        name=st.text(max_size=5),
        input=any_json,
        call_id=st.text(max_size=5),
        output=some_text,
        is_error=st.booleans(),
        ref=st.text(max_size=5),
        media_type=st.text(max_size=5),
        data=any_json,
    ),
    max_size=3,
)
some_messages = st.builds(
    Message,
    role=st.sampled_from(ROLES),
    content=some_text,
    timestamp=st.sampled_from(("2026-01-31T09:30:00.000Z", "2026-01-31T09:30:00Z", "2026-01-31 10:30+01:00")),
    tokens=st.none() | st.integers(0, 10**6),
    id=st.uuids().map(str),
    model=st.text(max_size=5),
    parts=st.none() | some_parts,
    usage=st.none() | st.dictionaries(st.text(max_size=5), any_json, max_size=3),
    parent=st.text(max_size=5),
    partial=st.booleans(),
    aside=st.booleans(),
    extra=st.none() | st.dictionaries(st.text(max_size=5), any_json, max_size=3),
)


@given(st.lists(some_messages.filter(lambda message: bool(message.content or message.parts)), max_size=4))
def test_bulk_lines_are_those_that_an_append_writes(given_messages: list[Message]) -> None:
    expected = [complete(plain(message), seq) for seq, message in enumerate(given_messages)]
    log = NewLog()
    assert log.lines(given_messages) == b"".join(map(encode_message, expected))
    assert log.count == len(expected)
    assert log.tokens == sum(message.tokens or 0 for message in expected)
    assert log.last == max((message.timestamp for message in expected), default="")


@every_row(
    "message",
    [
        Message(role="user", content="a" * (1 << 20), id="long"),
        Message(role="user", content="lone \ud800 surrogate", id="lone"),
        Message(role="user", content=("lone \ud800 surrogate" * LONG), id="lone"),
        Message(role="tool", parts=[Part("tool_result", output="b" * LONG, is_error=True)], id="error"),
        Message(role="tool", parts=[Part("tool_result", output="b" * LONG)], aside=True, id="more after it"),
        Message(role="tool", parts=[Part("tool_result", output='c"}]}' * LONG)], id="looks like an end"),
        Message(role="assistant", parts=[Part("tool_call", input={"deep": [[[[1]]]] * 300})], id="many brackets"),
        Message(role="user", content="without an id"),
        Message(role="user", content="without a time", timestamp=""),
    ],
)
def test_unusual_lines_are_those_that_an_append_writes(message: Message) -> None:
    message.timestamp = message.timestamp or ("2026-01-31T09:30:00.000Z" if message.id else "")
    copy = plain(message)
    raw = NewLog().lines([message])
    if message.id:
        assert raw == encode_message(complete(copy, 0))
    else:
        assert b'"seq": 0' in raw and b'"id": "' in raw and b'"timestamp": "' in raw


@pytest.mark.parametrize("deep", [201, 900])
def test_bulk_creation_refuses_what_an_append_refuses(deep: int) -> None:
    nested: object = 1
    for _ in range(deep):
        nested = [nested]
    time = "2026-01-31T09:30:00.000Z"
    for bad in (
        Message(role="user", content="", id="empty", timestamp=time),
        Message(role="nobody", content="a", id="role", timestamp=time),
        Message(role="user", content="a", id="time", timestamp="2026-02-31T09:30:00.000Z"),
        Message(role="user", content="a", id="deep", timestamp=time, usage={"a": nested}),
    ):
        with pytest.raises(InvalidMessage):
            NewLog().lines([bad])


def test_a_repeated_message_is_written_once_and_a_reused_id_is_refused() -> None:
    first = Message(role="user", content="a", id="same", timestamp="2026-01-31T09:30:00.000Z")
    log = NewLog()
    assert log.lines([plain(first), plain(first)]) == encode_message(complete(first, 0))
    with pytest.raises(InvalidMessage, match="another message has the id"):
        log.lines([Message(role="user", content="b", id="same", timestamp="2026-01-31T09:30:00.000Z")])


# ── other processes ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("STORE-08")
def test_a_session_that_was_created_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    store = WorkspaceStore(str(tmp_path))
    bulk = store.bulk()
    assert isinstance(bulk, FileBulk)
    for name in NAMES:
        build(bulk, name)
    other = WorkspaceStore(str(tmp_path))
    other.create(Session(id="two", title="theirs", created_at="2026-03-01T00:00:00Z"))
    other.append("two", Message(role="user", content="theirs"))
    (tmp_path / "conversations" / DAYS["three"] / "three").mkdir(parents=True)  # a conversation of plain Markdown
    done: list[str] = []
    assert bulk.publish(done.extend) == Publication(["one"], ["two", "three"], {})
    assert done == ["one"]
    assert [message.content for message in store.read("two")] == ["theirs"]
    assert list((tmp_path / "conversations" / DAYS["three"] / "three").iterdir()) == []
    with pytest.raises(SessionExists):
        bulk.begin("one")
    bulk.close()


@pytest.mark.req("STORE-08")
def test_a_locked_session_does_not_stop_the_others(tmp_path: Path) -> None:
    store = WorkspaceStore(str(tmp_path), lock_timeout=0.01)
    bulk = store.bulk()
    assert isinstance(bulk, FileBulk)
    for name in NAMES:
        build(bulk, name)
    with WorkspaceStore(str(tmp_path)).locked("two", new=True):
        published = bulk.publish(lambda _: None)
    assert published.made == ["one", "three"] and isinstance(published.failed["two"], SessionBusy)
    bulk.close()
    assert check_complete(str(tmp_path), ["one", "three"]) == ["one", "three"]


def test_two_imports_do_not_remove_the_drafts_of_each_other(tmp_path: Path) -> None:
    one, two = WorkspaceStore(str(tmp_path)).bulk(), WorkspaceStore(str(tmp_path)).bulk()
    assert isinstance(one, FileBulk) and isinstance(two, FileBulk)
    build(one, "one")
    build(two, "two")
    one.close()
    assert two.publish(lambda _: None).made == ["two"]
    two.close()
    assert check_complete(str(tmp_path), ["two"]) == ["two"]
    assert not (tmp_path / ".workspace" / "state" / INCOMING).exists()


# ── kills, failures, power cuts ──────────────────────────────────────────────────────────────────────


@pytest.mark.req("STORE-03", "STORE-10")
@pytest.mark.usefixtures("in_order")
@pytest.mark.parametrize("half", [False, True])
def test_after_a_kill_at_any_call_every_session_is_complete_or_missing(half: bool, tmp_path: Path) -> None:
    with installed(Counting()) as counting:
        create_all(str(tmp_path / "once"), [])
    for number in range(1, counting.count + 1):
        root, done = str(tmp_path / str(number)), list[str]()
        with installed(KillAt(number, half=half)), pytest.raises(Dead):
            create_all(root, done)
        with installed(Counting()):
            found = check_complete(root, done)
            create_all(root, [], [name for name in NAMES if name not in found])
            assert check_complete(root, NAMES) == sorted(NAMES), f"after a kill at call {number}"
        assert not os.path.exists(os.path.join(root, ".workspace", "state", INCOMING)), f"left behind after {number}"
    assert counting.names.count("rename") == 4  # three sessions and the control folder's .gitignore


@pytest.mark.req("STORE-07")
@pytest.mark.usefixtures("flushed")
def test_a_failed_call_is_reported_and_the_next_import_succeeds(tmp_path: Path) -> None:
    with installed(FailAt(0, 0)) as counting:
        create_all(str(tmp_path / "once"), [])
    reported = 0
    for number in (n for n, harmless in enumerate(counting.harmless(), 1) if not harmless):
        root, done = str(tmp_path / str(number)), list[str]()
        faults = FailAt(number, (errno.ENOSPC, errno.EIO)[number % 2], partly=number % 3 == 0, changing=True)
        failed: list[str] = []
        with installed(faults):
            try:
                published = create_all(root, done)
                failed = list(published.failed)
                assert published.made == done
            except WriteFailed:
                failed = [name for name in NAMES if name not in done]
        reported += bool(failed)
        if faults.failed == ["fsync"]:
            assert failed, f"a failed flush at call {number} was not reported"
        with installed(Counting()):
            found = check_complete(root, done)
            create_all(root, [], [name for name in NAMES if name not in found])
            assert check_complete(root, NAMES) == sorted(NAMES), f"after call {number} failed"
    assert reported > 20


class _BadSectors(Counting):
    """A disk that cannot flush the files of one session."""

    def act(self, number: int, name: str, args: tuple[Any, ...]) -> Any:
        if name == "fsync" and "/s7/" in os.readlink(f"/proc/self/fd/{args[0]}"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return self.real(name, *args)


@pytest.mark.req("STORE-07")
def test_a_failed_flush_of_one_session_does_not_affect_the_others(tmp_path: Path) -> None:
    names = [f"s{number}" for number in range(20)]
    bulk = WorkspaceStore(str(tmp_path)).bulk()
    assert isinstance(bulk, FileBulk)
    ready = []
    for name in names:
        draft = bulk.begin(name)
        draft.write([[Message(role="user", content=name)]])
        draft.finish(Session(id=name, created_at="2026-01-31T09:00:00Z"), Change())
        ready.append(draft)
    with installed(_BadSectors(sync=True)) as calls:
        for draft in ready:
            bulk.ready(draft)
        published = bulk.publish(lambda _: None)
    bulk.close()
    assert list(published.failed) == ["s7"] and isinstance(published.failed["s7"], WriteFailed)
    assert published.made == [name for name in names if name != "s7"]
    assert calls.names.count("fsync") >= 19 * 4
    assert sorted(session.id for session in WorkspaceStore(str(tmp_path)).sessions()) == sorted(published.made)


class _SlowDisk(Counting):
    """A disk whose flushes in other threads wait until the test allows them."""

    def __init__(self) -> None:
        super().__init__()
        self.flushing, self.may_finish = Event(), Event()

    def _locked_call(self, name: str, *args: Any) -> Any:
        if name == "fsync" and current_thread() is not main_thread():
            self.flushing.set()
            assert self.may_finish.wait(60)
        return super()._locked_call(name, *args)


def test_dropping_a_draft_waits_for_a_flush_that_has_begun(tmp_path: Path) -> None:
    bulk = WorkspaceStore(str(tmp_path)).bulk()
    assert isinstance(bulk, FileBulk)
    with installed(_SlowDisk()) as disk:
        build(bulk, "one")
        assert disk.flushing.wait(60)
        dropping = Thread(target=bulk.close)
        dropping.start()
        dropping.join(0.05)
        assert dropping.is_alive(), "files were closed while they were being flushed"
        disk.may_finish.set()
        dropping.join(60)
    assert not dropping.is_alive() and list(WorkspaceStore(str(tmp_path)).sessions()) == []
    assert not (tmp_path / ".workspace" / "state" / INCOMING).exists()


class _CannotCopy(Counting):
    """A kernel whose copy_file_range fails after the first bytes, or always."""

    def __init__(self, first: int) -> None:
        super().__init__()
        self._first = first

    def act(self, number: int, name: str, args: tuple[Any, ...]) -> Any:
        if name != "copy_range":
            return self.real(name, *args)
        if not self._first or os.lseek(args[0], 0, os.SEEK_CUR):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        return self.real(name, args[0], args[1], self._first)


@pytest.mark.parametrize("first", [0, 1000])
def test_a_file_that_the_kernel_cannot_copy_is_copied_by_us(first: int, tmp_path: Path) -> None:
    with installed(_CannotCopy(first)):
        create_all(str(tmp_path), [])
    assert check_complete(str(tmp_path), NAMES) == sorted(NAMES)


def test_short_writes_are_continued(tmp_path: Path) -> None:
    with installed(ShortWrites(1)):
        create_all(str(tmp_path), [])
    assert check_complete(str(tmp_path), NAMES) == sorted(NAMES)


def _record(base: Path, *, kill_at: int = 0, fail_sync_at: int = 0) -> list[Op]:
    """Record an import and, if it was killed or a flush failed, the work of a second process that finishes it."""
    base.mkdir(mode=0o700)
    recorder = Recorder(str(base), kill_at=kill_at, fail_sync_at=fail_sync_at)
    root = str(base / "store")

    def acknowledge(ids: Sequence[str]) -> None:
        recorder.mark(("ack", "made", [[], list(ids)]))

    def run(names: Sequence[str]) -> None:
        bulk = WorkspaceStore(root).bulk()
        assert isinstance(bulk, FileBulk)
        try:
            for name in names:
                build(bulk, name)
            bulk.publish(acknowledge)
        finally:
            bulk.close()

    with installed(recorder):
        try:
            run(NAMES)
        except (Dead, WriteFailed):
            recorder.dead = False
        if kill_at or fail_sync_at:
            store = WorkspaceStore(root)
            existing = [session.id for session in store.sessions()]
            for name in existing:  # an update acknowledges a session that exists
                store.update(name, Change(title="last"))
                acknowledge([name])
            run([name for name in NAMES if name not in existing])
    return recorder.ops


def _check_cut(ops: list[Op], cut: int, style: str, disk: Path) -> None:
    events = after_power_cut(ops, cut, random.Random(f"{cut} {style}"), style, str(disk))
    done = [name for _, _, values in events for name in values[1]]
    root = str(disk / "store")
    with installed(Counting()):
        found = check_complete(root, done)
        create_all(root, [], [name for name in NAMES if name not in found])
        check_complete(root, NAMES)


@pytest.mark.req("STORE-03", "STORE-10")
@pytest.mark.usefixtures("flushed")
def test_after_a_power_cut_at_any_point_sessions_are_complete(tmp_path: Path) -> None:
    ops = _record(tmp_path / "recorded")
    states = list(cuts(ops, 2, random.Random(7)))
    assert len(states) > 60
    for number, (cut, style) in enumerate(states):
        _check_cut(ops, cut, style, tmp_path / f"disk{number}")


@pytest.mark.req("STORE-03", "STORE-07", "STORE-10")
@pytest.mark.usefixtures("in_order")
@pytest.mark.parametrize("how", ["kill_at", "fail_sync_at"])
def test_after_a_failure_a_second_import_and_a_power_cut_sessions_are_complete(how: str, tmp_path: Path) -> None:
    undisturbed = _record(tmp_path / "undisturbed")
    count = len(undisturbed) if how == "kill_at" else sum(op.kind == "sync" for op in undisturbed)
    chance = random.Random(11)
    tried = 0
    for number in range(1, count + 1, 3 if how == "kill_at" else 1):
        ops = _record(tmp_path / f"{how}{number}", **{how: number})
        acks = [index for index, op in enumerate(ops, 1) if op.event is not None]
        for cut in (*chance.sample(acks, min(2, len(acks))), len(ops)):
            tried += 1
            _check_cut(ops, cut, chance.choice(STYLES), tmp_path / f"disk-{how}-{number}-{cut}")
    assert tried > 40
