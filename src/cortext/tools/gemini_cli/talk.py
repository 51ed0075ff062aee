"""The talk that the records of a transcript add up to, message by message.

Gemini CLI appends: a record with a known id replaces the earlier one (first the words of an answer, then the
same with its tool calls), `$set` may replace the whole history, `$rewindTo` cuts it. We give every message once,
when it first appears, and say with `parent` where the talk went back. When the program compresses, masks or loads
its history it writes old messages again under new ids: those are known by their words, and not given twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from cortext.model.message import BEGINNING, USER, Message
from cortext.tools.base import About, Counts
from cortext.tools.gemini_cli.mark import SESSION_CONTEXT
from cortext.tools.gemini_cli.messages import bookkeeping, calls_of, moment, plain_answer
from cortext.tools.gemini_cli.records import (
    SCREEN_TYPES,
    Record,
    head_decoder,
    parts_of,
    record_decoder,
)
from cortext.tools.gemini_cli.seen import Seen, sign
from cortext.tools.gemini_cli.turns import Turns
from cortext.tools.shared.lines import WITHOUT_CONTENT, note

# How many of the newest records a later one with the same id may still complete, here and in the next reading.
RECENT = 32
REMEMBERED = 8


class PastNeeded(Exception):
    """This record cannot be understood without those before it."""


class Talk(Turns):
    """Takes records in order, gives messages.

    `whole` says whether it saw the transcript from its beginning; `careful` that it also remembers all words and
    calls, to know them again. Where it lacks what it needs, it says so (PastNeeded) before it changes anything.
    """

    def __init__(self, key: str, about: About, counts: Counts, *, aside: bool, careful: bool = False) -> None:
        super().__init__(key, about, counts, aside=aside, careful=careful)
        self.whole = True
        self.last = ""  # the message given last
        self._floor = ""  # the talk's end, where the cursor's records gave no message
        self._gone: dict[str, str] = {}  # records that were cut away, each with its last message
        self._recent: dict[str, Seen] = {}  # those that a later record with the same id may still complete
        self._held: list[Record] | None = None  # a history that is being written again
        self._copies = 0

    # ── the cursor ───────────────────────────────────────────────────────────────────────────────────

    def state(self) -> dict[str, Any]:
        """What the next reading needs to go on here."""
        recent = []
        for name, seen in list(self._recent.items())[-REMEMBERED:]:
            mark = seen.words if isinstance(seen.words, int) else sign(seen.words)
            message_id = self._chain.get(name, "")
            recent.append([name, message_id, mark, seen.said, seen.calls, seen.versions, seen.answered])
        return {"last": self.last, "tip": self._tip(), "recent": recent}

    def go_on(self, state: dict[str, Any]) -> None:
        """Begin in the middle, with what an earlier reading left."""
        self.whole, self._moved = False, True
        self.last, self._floor = str(state["last"]), str(state["tip"])
        for name, message_id, *entry in state["recent"]:
            self._recent[name] = seen = msgspec.convert(entry, Seen)
            self._chain[name] = str(message_id)
            self._answers.update(dict.fromkeys(seen.answered, ""))

    # ── records ──────────────────────────────────────────────────────────────────────────────────────

    def take(self, record: Record, out: list[Message]) -> None:
        """Put the messages that a record adds into `out`."""
        if record.type == "gemini" and record.id and self._held is None:
            if self._is_ordinary(record):
                self._answer(record, out)
            else:
                self._message(record, out)
            return
        if self._held is not None:
            if record.id:
                self._held.append(record)
                return
            if record.changed is not None and record.changed.messages is None:
                note(self.counts.skipped, "metadata")
                return
            self.finish(out)
        if record.rewind is not None:
            self._rewind(record.rewind)
        elif record.id:
            if self._begins_again(record):
                self._held = [record]
            else:
                self._message(record, out)
        elif record.changed is not None:
            if record.changed.messages is not None:
                self._replace(record.changed.messages, out)
            else:
                note(self.counts.skipped, "metadata")
            self.about.title = record.changed.summary or self.about.title
        elif record.sessionId is not None:
            self._opening(record, out)
        else:
            note(self.counts.unknown, "record without an id")

    def finish(self, out: list[Message]) -> None:
        """What was held back: copies of what is known already, and perhaps something new among them."""
        held, self._held = self._held or (), None
        for record in held:
            self._second_hand(record, out)
        if self._copies:
            note(self.counts.skipped, "tool result again", self._copies)
            self._copies = 0

    def _is_ordinary(self, record: Record) -> bool:
        """Whether an answer is new, plain, and follows the message before it: as most of every transcript."""
        return (
            type(record.content) is str
            and record.id not in self._chain
            and not (self._moved or self.careful or self.aside or self._gone)
            and record.cortext is None
            and not bookkeeping(record.content)
        )

    def _answer(self, record: Record, out: list[Message]) -> None:
        """An ordinary answer: what `_message` would give, in half the time."""
        given, seen = plain_answer(record, self.key, self._answers)
        name = record.id
        self._recent[name] = seen
        if len(self._recent) > RECENT:
            self._forget_some()
        self._chain[name] = ""
        if record.model:
            self.about.model = record.model
        if seen.calls:
            self._only_call = seen.answered[0] if seen.calls == len(seen.answered) == 1 else ""
            for call in record.toolCalls or ():
                if call.name and call.name not in self.about.tools:
                    self.about.tools.append(call.name)
        if given:
            out += given
            self.last = self._chain[name] = given[-1].id

    def _forget_some(self) -> None:
        for name in list(self._recent)[:-REMEMBERED]:
            del self._recent[name]

    def is_copy(self, record_id: str, call_id: str) -> bool:
        """Whether a record that begins with this result brings nothing new: it belongs to the only call just made."""
        if call_id != self._only_call or self._held is not None:
            return False
        self._copies += 1
        self._chain[record_id] = ""
        return True

    def _opening(self, record: Record, out: list[Message]) -> None:
        """The session's own data; in a document on one line, with all its messages."""
        note(self.counts.skipped, "metadata")
        self.about.created_at = self.about.created_at or moment(record.startTime)
        self.about.title = record.summary or self.about.title
        for raw in record.messages or ():
            message = self._decoded(raw)
            if message is not None:
                self.take(message, out)

    def _begins_again(self, record: Record) -> bool:
        """Whether the program begins to write its history again: only then this context comes as a record."""
        content = record.content
        if record.type != "user" or not isinstance(content, list) or not content or record.id in self._chain:
            return False
        first = content[0]
        text = first if isinstance(first, str) else first.text
        if not text or not text.startswith(SESSION_CONTEXT) or record.cortext is not None:
            return False
        if self.last and not self.careful:
            raise PastNeeded
        return self.last != ""

    def _rewind(self, record_id: str) -> None:
        """Cut the talk before a record; all of it where the record is unknown, as the program does."""
        if not self.whole:
            raise PastNeeded
        note(self.counts.skipped, "rewind")
        self._moved = True
        names = list(self._chain)
        start = names.index(record_id) if record_id in self._chain else 0
        for name in names[start:]:
            self._gone[name] = self._chain.pop(name)

    def _replace(self, raws: Sequence[msgspec.Raw], out: list[Message]) -> None:
        """The whole history anew: known records stay what they are, unknown ones may bring something."""
        before = {**self._gone, **self._chain}
        names = [_name(raw) for raw in raws]
        all_known = self.whole and all(name in before or _called_by(name) in before for name in names)
        if self.last and not all_known and not self.careful:
            raise PastNeeded
        note(self.counts.skipped, "history again")
        self._chain = {}
        for name, raw in zip(names, raws, strict=True):
            known = name in before
            if known:
                self._chain[name] = before.pop(name)
            elif _called_by(name) in self._chain:
                self._chain[name] = ""  # results once more: the program puts them beside their calls
                note(self.counts.skipped, "tool result again")
                continue
            if not known or name in self._recent:
                record = self._decoded(raw)
                if record is not None and record.id:
                    self._moved = True
                    self._second_hand(record, out)
        self._gone = before
        self._moved = True

    def _decoded(self, raw: msgspec.Raw) -> Record | None:
        try:
            return record_decoder.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            note(self.counts.damaged, "unexpected shape")
            return None

    # ── messages ─────────────────────────────────────────────────────────────────────────────────────

    def _message(self, record: Record, out: list[Message]) -> None:
        kind, name = record.type, record.id
        if kind not in ("gemini", "user"):
            self._chain.setdefault(name, "")
            if kind in SCREEN_TYPES:
                note(self.counts.skipped, kind)
            else:
                note(self.counts.unknown, f"type {kind[:40] or 'missing'}")
            return
        seen = self._recent.get(name)
        if seen is None:
            if name in self._chain:
                note(self.counts.skipped, "record again")
                return
            self._recent[name] = seen = Seen()
            if len(self._recent) > RECENT:
                self._forget_some()
            self._chain[name] = self._gone.pop(name, "") if self._gone else ""
        elif name not in self._chain:
            self._chain[name] = self._gone.pop(name, "")
        if kind == "gemini" and record.cortext is None:
            given = self._model(record, seen)
        elif record.cortext is not None:
            given = self._own(record, record.cortext, seen)
        else:
            given = self._user(record, seen)
        if given:
            self._place(record, given, out)
        elif seen.said or seen.calls:
            note(self.counts.skipped, "record again")
        elif not record.toolCalls and not any(part.text or part.functionResponse for part in parts_of(record.content)):
            note(self.counts.skipped, WITHOUT_CONTENT)

    def _second_hand(self, record: Record, out: list[Message]) -> None:
        """A record out of a history that was written again: only what is not known by id or by its words."""
        if record.id in self._recent and record.id in self._chain:
            if record.type == "gemini" and record.toolCalls:
                self._message(record, out)
            return
        parts = parts_of(record.content)
        texts = [part.text for part in parts if part.text and not part.thought]
        origin = next((self._words[sign(text)] for text in reversed(texts) if sign(text) in self._words), "")
        answers = [part.functionResponse for part in parts if part.functionResponse is not None]
        for call_id in [*(call.id for call in calls_of(record, parts)), *(answer.id for answer in answers)]:
            origin = self._answers.get(call_id or "") or self._calls.get(call_id or "", origin)
        strange = [text for text in texts if sign(text) not in self._words and not bookkeeping(text)]
        if origin and not strange:
            note(self.counts.skipped, "message again")
            self._chain[record.id] = origin
        else:
            self._message(record, out)

    # ── places ───────────────────────────────────────────────────────────────────────────────────────

    def _place(self, record: Record, given: list[Message], out: list[Message]) -> None:
        """Give a record's messages, with a parent where their place in the talk is not behind the one before."""
        out += given
        if record.type == "gemini" and not self._moved and not self.aside and not given[0].aside:
            self.last = given[-1].id
            self._chain[next(reversed(self._chain))] = self.last
            return
        for message in given:
            if message.aside or self.aside:
                message.aside = True
                continue
            if self._moved:
                self._moved = False
                tip = self._tip()
                if tip != self.last and self.last:
                    message.parent = tip or BEGINNING
            self.last = message.id
            if message.role == USER and not self.about.command and message.content.startswith("/workspace"):
                self.about.command = message.content.split(maxsplit=1)[0]
        # The newest record mostly is this one; where another writer's followed it, this belongs behind that.
        self._chain[next(reversed(self._chain), record.id)] = self.last

    def _tip(self) -> str:
        """The last message of the talk as it stands."""
        for message_id in reversed(self._chain.values()):
            if message_id:
                return message_id
        return self._floor


def _name(raw: msgspec.Raw) -> str:
    try:
        return head_decoder.decode(raw).id
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""


def _called_by(name: str) -> str:
    """The record whose tool results another one repeats, by its name."""
    return name.removesuffix("_response") if name.endswith("_response") else ""
