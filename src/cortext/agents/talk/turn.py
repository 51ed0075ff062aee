"""A conversation with a model, turn by turn, in which no message is lost. Every face uses it.

    with store.open(session_id) as writer:
        talk = Talk(writer, view, model)
        talk.say("Which index does this query use?")        # durable when this returns
        for event in talk.answer():                         # AnswerText, CallRequest, CallResult, Tick, Done …
            show(event)
        talk.reply                                          # the message that was stored
        talk.cut_reason                                     # why it is incomplete: "length", "filtered"; else empty

The model is asked in its own thread, so that `stop()` works from any thread and from a signal handler (it only puts an
item into a queue). Everything is stored by the thread that runs `answer`, so no signal can come between a write and
its flush.

A reply that was stopped, or whose connection broke, is stored as partial and left out of the view. One that the
model's limit or filter cut off stays in the view, with the reason in its `extra`; another `answer` continues it. One
that could not be written is `pending`: it is written before anything else is stored. An empty turn raises ModelCut.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator, Sequence
from queue import Empty, SimpleQueue
from typing import Protocol

import msgspec

from cortext.agents.llm.base import CallRequest, ChatModel, Event, Request, ToolSpec
from cortext.agents.talk.context import STOP, View, cut_reason_of
from cortext.errors import CortextError, InvalidMessage, ModelCut
from cortext.model import clock, ids
from cortext.model.answer import CUT, AnswerText, Done, Thinking
from cortext.model.message import ASSISTANT, TEXT, THINKING, TOOL, TOOL_CALL, USER, Message, Part
from cortext.store.base import Writer

TICK = 0.1  # seconds between two Tick events while the model is silent
ROUNDS = 16  # how many times a model may call tools before it has to answer
GRACE = 2.0  # seconds for a cancelled request to end


class Tick(msgspec.Struct, frozen=True):
    """Nothing arrived for a moment: turn the spinner."""


class CallResult(msgspec.Struct, frozen=True):
    """A tool was run; `part` is what the model receives."""

    call: CallRequest
    part: Part


class Tools(Protocol):
    """The tools that a face gives to the model."""

    @property
    def specs(self) -> list[ToolSpec]: ...

    def run(self, call: CallRequest) -> Part:
        """Run the tool and return the `tool_result` part. Errors are reported in it, never raised."""


class _Signal(msgspec.Struct, frozen=True):
    """An item of the event queue that is not an event of the model."""

    name: str


_STOP, _END = _Signal("stop"), _Signal("end")


class Talk:
    """An open conversation: the writer of its session, its view, and the model that answers."""

    def __init__(
        self, writer: Writer, view: View, model: ChatModel, *, tools: Tools | None = None, tick: float = TICK
    ) -> None:
        self.writer, self.view, self.model, self.tools, self.tick = writer, view, model, tools, tick
        self.pending: list[Message] = []  # messages that could not be written, in order
        self.reply: Message | None = None  # the last one of this turn, complete or partial
        self.stopped = False  # whether this turn was stopped
        self._stop_requested = False
        self._events: SimpleQueue[Event | CortextError | _Signal] | None = None
        self._asking: threading.Thread | None = None

    def warm(self) -> None:
        """Let the model import heavy libraries in the background. Errors are raised later, when it is asked."""

        def work() -> None:
            try:
                self.model.warm()
            except CortextError:
                pass

        threading.Thread(target=work, daemon=True, name="warm").start()

    def begin(self) -> None:
        """Begin a new turn: a `stop` from now on applies to it, an earlier one does not."""
        self._stop_requested = False

    def say(self, text: str, *, parts: list[Part] | None = None) -> Message:
        """Store the user's message. On WriteFailed it is not stored, and the model must not be asked."""
        return self.store(Message(role=USER, content=text, parts=parts))[0]

    def store(self, *messages: Message) -> list[Message]:
        """Store the pending messages, then these, all or none, and add them to the view."""
        self.save_pending()
        stored = self.writer.append(*messages)
        for message in stored:
            self.view.add(message)
        return stored

    def save_pending(self) -> None:
        """Try again to store the messages that could not be written."""
        while self.pending:
            # Its id was assigned before the first attempt, so a message that did reach the disk is not stored twice.
            for message in self.writer.append(self.pending[0]):
                self.view.add(message)
                self.reply = message
            del self.pending[0]

    @property
    def cut_reason(self) -> str:
        """Why the reply of this turn was cut off; empty if it is complete or there is none."""
        return cut_reason_of(self.reply) if self.reply is not None else ""

    def stop(self) -> None:
        """Stop the turn that started with `begin`. Safe from any thread and from a signal handler."""
        self._stop_requested = True
        events = self._events
        if events is not None:
            events.put(_STOP)

    def answer(self) -> Generator[Event | CallResult | Tick, None, None]:
        """Ask the model for the next turn, run the tools that it calls, and store its reply.

        A ModelError is raised after what had arrived was stored. Closing the generator stops the turn; a caller that
        may not consume all of it must close it (`contextlib.closing`) before it closes the session.
        """
        self.stopped, self.reply = False, None
        try:
            yield from self._rounds()
        finally:
            self._stop_requested = False

    def _rounds(self) -> Generator[Event | CallResult | Tick, None, None]:
        has_text = False
        for _ in range(ROUNDS):
            draft = _Draft()
            try:
                yield from self._ask(draft)
            finally:
                if draft.done is None:
                    self._store_reply(draft.message(self.model.name, partial=True))
            if draft.done is None:
                return  # stopped: an error would have been raised
            has_text = has_text or bool("".join(draft.text).strip())
            # An empty turn is not an answer: stored as partial, it leaves the question unanswered.
            empty = not has_text and not draft.calls
            self._store_reply(draft.message(self.model.name, partial=empty))
            if empty:
                raise _empty_answer(draft.done.stop)
            if not draft.calls or self.tools is None:
                return
            yield from self._run(self.tools, draft.calls)
        raise ModelCut(
            f"the model called tools {ROUNDS} times without giving an answer",
            kept="the tool calls and their results are stored",
            hint="rephrase the question",
        )

    def _run(self, tools: Tools, calls: Sequence[CallRequest]) -> Iterator[CallResult]:
        parts = []
        for call in calls:
            parts.append(tools.run(call))
            yield CallResult(call, parts[-1])
        self._store_reply(Message(role=TOOL, parts=parts))

    def _ask(self, draft: _Draft) -> Generator[Event | Tick, None, None]:
        if self._asking is not None:
            self._asking.join(GRACE)  # a request that was stopped a moment ago
        events: SimpleQueue[Event | CortextError | _Signal] = SimpleQueue()
        request = Request(
            messages=self.view.messages, system=self.view.system, tools=self.tools.specs if self.tools else []
        )
        self._events = events  # from here on `stop` uses the queue; the flag says whether it came before
        if self._stop_requested:
            self._events, self.stopped = None, True
            return
        # Started here and not in the thread, so that a `cancel` from now on has an effect.
        answer = self.model.stream(request)
        self._asking = threading.Thread(target=_forward, args=(answer, events), daemon=True, name="model")
        ended = False
        try:
            self._asking.start()
            while True:
                try:
                    item = events.get(timeout=self.tick)
                except Empty:
                    yield Tick()
                    continue
                if isinstance(item, _Signal):
                    ended = item is _END
                    self.stopped = not ended and draft.done is None  # a stop after the last event changes nothing
                    break
                if isinstance(item, CortextError):
                    ended = True
                    raise item
                draft.add(item)
                yield item
        finally:
            self._events = None
            if not ended:
                self.model.cancel()
                self._asking.join(GRACE)
        if ended and draft.done is None:
            raise ModelCut("the answer broke off", kept="the part that arrived, as a partial reply", hint="ask again")

    def _store_reply(self, message: Message | None) -> None:
        """Store a reply or tool results. If that fails, the message stays pending in memory."""
        if message is None:
            return
        self.pending.append(msgspec.structs.replace(message, id=ids.new_message_id(), timestamp=clock.now()))
        try:
            self.save_pending()
        except InvalidMessage:
            del self.pending[0]  # a second attempt would fail in the same way
            raise
        except CortextError as error:
            error.kept = "the reply is on the screen and in memory; it is stored before your next message"
            raise


_REASONS = {
    "length": "the model's limit for one answer was reached",
    "filtered": "the provider's filter stopped the model",
}


def cut_error(reason: str, hint: str) -> ModelCut:
    """Return the error that reports a stored answer as incomplete."""
    text = _REASONS.get(reason, reason)
    return ModelCut(f"the answer is incomplete: {text}", kept="the part that arrived, and the reason", hint=hint)


def _empty_answer(reason: str) -> ModelCut:
    text = f": {_REASONS[reason]}" if reason in _REASONS else ""
    return ModelCut(f"the model gave an empty answer{text}", kept="your message is stored", hint="ask again")


def _forward(answer: Iterator[Event], events: SimpleQueue[Event | CortextError | _Signal]) -> None:
    """Put the events of an answer into the queue, then an error if there was one, and always _END."""
    try:
        for event in answer:
            events.put(event)
    except CortextError as error:
        events.put(error)
    finally:
        events.put(_END)


class _Draft:
    """A reply that is still arriving."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.thinking: list[str] = []
        self.calls: list[CallRequest] = []
        self.done: Done | None = None

    def add(self, event: Event) -> None:
        if isinstance(event, AnswerText):
            self.text.append(event.text)
        elif isinstance(event, Thinking):
            self.thinking.append(event.text)
        elif isinstance(event, CallRequest):
            self.calls.append(event)
        elif isinstance(event, Done):
            self.done = event

    def message(self, model: str, *, partial: bool = False) -> Message | None:
        """Return the reply to store; None if it is empty. It has `parts` only if it is more than text."""
        text, thinking = "".join(self.text), "".join(self.thinking)
        parts = [Part(type=THINKING, text=thinking)] if thinking else []
        if not partial:  # the calls of a partial reply are never run
            parts += [Part(type=TOOL_CALL, id=call.id, name=call.name, input=call.input) for call in self.calls]
        if not text and not parts:
            return None
        if parts and text:
            parts.insert(1 if thinking else 0, Part(type=TEXT, text=text))
        usage = self.done.usage if self.done and self.done.usage.output >= 0 else None
        counts = {"input_tokens": usage.input, "output_tokens": usage.output} if usage else {}
        return Message(
            role=ASSISTANT,
            content=text,
            model=(self.done.model if self.done else "") or model,
            tokens=usage.output if usage else None,
            parts=parts or None,
            usage={name: count for name, count in counts.items() if count >= 0} or None,
            partial=partial,
            extra={STOP: self.done.stop} if self.done and self.done.stop in CUT else None,
        )
