"""A talk with a model, turn by turn, that loses no word: what a face asks for, whoever the face is.

    with store.open(session_id) as writer:
        talk = Talk(writer, view, model)
        talk.say("Which index does this query use?")        # durable when this returns
        for event in talk.answer():                         # Text, Thinking, Call, Note, Result, Tick, Done
            show(event)
        talk.reply                                          # the message that was stored
        talk.cut                                            # why it ended before its end: "", "length", "filtered"

The model is asked in a thread of its own, so that `stop()` works from anywhere: another thread, or a signal's
handler (it only puts a word into a queue). Everything is stored by the thread that runs `answer`, so no signal can
come between a write and its flush.

A reply that was stopped, or whose connection broke, is stored flagged, and stays out of the view. One that the model's
limit or filter cut stays in, with the reason in its `extra`: another `answer` goes on with it. One that the disk
refused is `pending`: it is tried again before anything else is stored. A turn without a word in it is a ModelCut.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator, Sequence
from queue import Empty, SimpleQueue
from typing import Protocol

import msgspec

from cortext.errors import CortextError, InvalidMessage, ModelCut
from cortext.llm.base import CUT, Call, Done, Event, Model, Note, Request, Text, Thinking, ToolSpec
from cortext.model import clock, ids
from cortext.model.message import ASSISTANT, TEXT, THINKING, TOOL, TOOL_CALL, USER, Message, Part
from cortext.services.talk.context import STOP, View, cut_by
from cortext.store.base import Writer

__all__ = ["Call", "Done", "Model", "Note", "Result", "Talk", "Text", "Thinking", "Tick", "Tools", "cut_error"]

TICK = 0.1  # seconds between two signs of life while the model is silent
ROUNDS = 16  # so often may a model call tools before it has to answer
GRACE = 2.0  # seconds for a cancelled request to end


class Tick(msgspec.Struct, frozen=True):
    """Nothing came for a moment: turn the spinner."""


class Result(msgspec.Struct, frozen=True):
    """A tool was run, and this is what the model is told."""

    call: Call
    part: Part


class Tools(Protocol):
    """The tools that a face gives to the model, and how one is run."""

    @property
    def specs(self) -> list[ToolSpec]: ...

    def run(self, call: Call) -> Part:
        """The `tool_result` part that answers the call. What went wrong is in it, never raised."""


class _Word(msgspec.Struct, frozen=True):
    text: str


_STOP, _END = _Word("stop"), _Word("end")


class Talk:
    """A session that is being held: its writer, its view, and the model that answers."""

    def __init__(
        self, writer: Writer, view: View, model: Model, *, tools: Tools | None = None, tick: float = TICK
    ) -> None:
        self.writer, self.view, self.model, self.tools, self.tick = writer, view, model, tools, tick
        self.pending: list[Message] = []  # what the disk refused, in the order in which it is to be stored
        self.reply: Message | None = None  # the last one of this turn, whole or partial
        self.stopped = False  # whether this turn was
        self._stop = False  # whether somebody wants it to be
        self._events: SimpleQueue[Event | CortextError | _Word] | None = None
        self._asking: threading.Thread | None = None

    def warm(self) -> None:
        """Let the model import what is heavy, in the background. What is wrong with it shows when it is asked."""

        def work() -> None:
            try:
                self.model.warm()
            except CortextError:
                pass

        threading.Thread(target=work, daemon=True, name="warm").start()

    def begin(self) -> None:
        """A new turn: a `stop` from now on is meant for it, one of before is not."""
        self._stop = False

    def say(self, words: str, *, parts: list[Part] | None = None) -> Message:
        """Store the user's words. On WriteFailed they are not stored, and the model must not be asked."""
        return self.store(Message(role=USER, content=words, parts=parts))[0]

    def store(self, *messages: Message) -> list[Message]:
        """Store messages, all or none, and take them into the view; first what is pending."""
        self.save_pending()
        stored = self.writer.append(*messages)
        for message in stored:
            self.view.add(message)
        return stored

    def save_pending(self) -> None:
        """Try again to store what the disk refused."""
        while self.pending:
            # Its id was given before the first try: a message that did reach the disk is not stored twice.
            for message in self.writer.append(self.pending[0]):
                self.view.add(message)
                self.reply = message
            del self.pending[0]

    @property
    def cut(self) -> str:
        """Why the reply of this turn ended before its end; empty where it is whole (or there is none)."""
        return cut_by(self.reply) if self.reply is not None else ""

    def stop(self) -> None:
        """End the turn that is under way, from `begin` on. From any thread, and from a signal's handler."""
        self._stop = True
        events = self._events
        if events is not None:
            events.put(_STOP)

    def answer(self) -> Generator[Event | Result | Tick, None, None]:
        """Ask the model for the next turn, run the tools that it calls, and store what it says.

        A ModelError is raised after what came until then was stored. Closing the generator stops the turn; who may
        leave it half way must close it (`contextlib.closing`), before the session is let go.
        """
        self.stopped, self.reply = False, None
        try:
            yield from self._rounds()
        finally:
            self._stop = False

    def _rounds(self) -> Generator[Event | Result | Tick, None, None]:
        said = False
        for _ in range(ROUNDS):
            draft = _Draft()
            try:
                yield from self._ask(draft)
            finally:
                if draft.done is None:
                    self._keep(draft.message(self.model.name, partial=True))
            if draft.done is None:
                return  # stopped: an error would have been raised
            said = said or bool("".join(draft.said).strip())
            # A turn without a word is not an answer: the question goes on waiting for one.
            empty = not said and not draft.calls
            self._keep(draft.message(self.model.name, partial=empty))
            if empty:
                raise _no_words(draft.done.stop)
            if not draft.calls or self.tools is None:
                return
            yield from self._run(self.tools, draft.calls)
        raise ModelCut(
            f"the model called tools {ROUNDS} times and gave no answer",
            kept="all of it is stored",
            hint="say what you want in other words",
        )

    def _run(self, tools: Tools, calls: Sequence[Call]) -> Iterator[Result]:
        parts = []
        for call in calls:
            parts.append(tools.run(call))
            yield Result(call, parts[-1])
        self._keep(Message(role=TOOL, parts=parts))

    def _ask(self, draft: _Draft) -> Generator[Event | Tick, None, None]:
        if self._asking is not None:
            self._asking.join(GRACE)  # a request that was stopped a moment ago
        events: SimpleQueue[Event | CortextError | _Word] = SimpleQueue()
        request = Request(
            messages=self.view.messages, system=self.view.system, tools=self.tools.specs if self.tools else []
        )
        self._events = events  # from here on `stop` is heard; and what was said before
        if self._stop:
            self._events, self.stopped = None, True
            return
        # Made here and not in the thread: a `cancel` from now on counts.
        answer = self.model.stream(request)
        self._asking = threading.Thread(target=_work, args=(answer, events), daemon=True, name="model")
        ended = False
        try:
            self._asking.start()
            while True:
                try:
                    item = events.get(timeout=self.tick)
                except Empty:
                    yield Tick()
                    continue
                if isinstance(item, _Word):
                    ended = item is _END
                    self.stopped = not ended and draft.done is None  # a whole answer is one, also if it was not awaited
                    break
                if isinstance(item, CortextError):
                    ended = True
                    raise item
                draft.take(item)
                yield item
        finally:
            self._events = None
            if not ended:
                self.model.cancel()
                self._asking.join(GRACE)
        if ended and draft.done is None:
            raise ModelCut("the answer broke off", kept="what came of it, as a partial reply", hint="ask again")

    def _keep(self, message: Message | None) -> None:
        """Store what the model said. If the disk refuses, it waits in memory."""
        if message is None:
            return
        self.pending.append(msgspec.structs.replace(message, id=ids.new_message_id(), timestamp=clock.now()))
        try:
            self.save_pending()
        except InvalidMessage:
            del self.pending[0]  # trying again would not help
            raise
        except CortextError as error:
            error.kept = "the reply is on the screen and in memory: it is stored before your next words"
            raise


_WHY = {
    "length": "the model's limit for one answer was reached",
    "filtered": "its provider's filter stopped the model",
}


def cut_error(reason: str, hint: str) -> ModelCut:
    """An answer that is not whole, as an error of which what came is kept."""
    why = _WHY.get(reason, reason)
    return ModelCut(f"the answer is incomplete: {why}", kept="what came of it, and why it ended", hint=hint)


def _no_words(reason: str) -> ModelCut:
    why = f": {_WHY[reason]}" if reason in _WHY else ""
    return ModelCut(f"the model gave an empty answer{why}", kept="your words are stored", hint="ask again")


def _work(answer: Iterator[Event], events: SimpleQueue[Event | CortextError | _Word]) -> None:
    """The thread that asks: it hands on what comes, and always ends with a word."""
    try:
        for event in answer:
            events.put(event)
    except CortextError as error:
        events.put(error)
    finally:
        events.put(_END)


class _Draft:
    """A reply while it comes in."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.thought: list[str] = []
        self.calls: list[Call] = []
        self.done: Done | None = None

    def take(self, event: Event) -> None:
        if isinstance(event, Text):
            self.said.append(event.text)
        elif isinstance(event, Thinking):
            self.thought.append(event.text)
        elif isinstance(event, Call):
            self.calls.append(event)
        elif isinstance(event, Done):
            self.done = event

    def message(self, model: str, *, partial: bool = False) -> Message | None:
        """The reply as it is stored; None where nothing was said. `parts` only where it is more than a text."""
        text, thought = "".join(self.said), "".join(self.thought)
        parts = [Part(type=THINKING, text=thought)] if thought else []
        if not partial:  # a call in half a reply is nobody's to answer
            parts += [Part(type=TOOL_CALL, id=call.id, name=call.name, input=call.input) for call in self.calls]
        if not text and not parts:
            return None
        if parts and text:
            parts.insert(1 if thought else 0, Part(type=TEXT, text=text))
        usage = self.done.usage if self.done and self.done.usage.output >= 0 else None
        counted = {"input_tokens": usage.input, "output_tokens": usage.output} if usage else {}
        return Message(
            role=ASSISTANT,
            content=text,
            model=(self.done.model if self.done else "") or model,
            tokens=usage.output if usage else None,
            parts=parts or None,
            usage={name: count for name, count in counted.items() if count >= 0} or None,
            partial=partial,
            extra={STOP: self.done.stop} if self.done and self.done.stop in CUT else None,
        )
