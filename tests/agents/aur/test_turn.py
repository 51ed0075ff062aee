"""One turn under all conditions: every message is stored once, in order, or stays pending."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cortext.agents.llm.base import CallRequest, Event, Request, ToolSpec
from cortext.agents.talk.context import UNANSWERED, View
from cortext.agents.talk.turn import ROUNDS, CallResult, Talk, Tick
from cortext.errors import InvalidMessage, ModelBusy, ModelCut, WriteFailed
from cortext.model.answer import AnswerNote, AnswerText, Done, Thinking, Usage
from cortext.model.message import TOOL_RESULT, Message, Part
from cortext.model.session import Session
from cortext.store.base import Writer
from cortext.store.files.spawn import SpawnStore

Script = list[Event | Exception | threading.Event]


class Scripted:
    """A model that follows a script: events, an error, or a wait until it is cancelled."""

    name, context, takes_tools = "test/scripted", 100_000, True

    def __init__(self, *answers: Script) -> None:
        self.answers = list(answers)
        self.asked: list[Request] = []
        self.cancelled = threading.Event()

    def stream(self, request: Request) -> Iterator[Event]:
        self.asked.append(request)
        self.cancelled.clear()
        return self._events(self.answers.pop(0))

    def _events(self, script: Script) -> Iterator[Event]:
        for item in script:
            if isinstance(item, Exception):
                raise item
            if isinstance(item, threading.Event):
                item.set()
                assert self.cancelled.wait(20)
                raise ModelCut("cancelled")
            yield item

    def cancel(self) -> None:
        self.cancelled.set()

    def warm(self) -> None:
        raise ModelBusy("not now")


class Desk:
    """Conversations over a real store."""

    def __init__(self, folder: Path, writer: Writer, store: SpawnStore) -> None:
        self.folder, self.writer, self.store = folder, writer, store

    def talk(self, *answers: Script, view: View | None = None) -> tuple[Talk, Scripted]:
        model = Scripted(*answers)
        return Talk(self.writer, view or View(), model, tick=0.02), model

    def stored(self) -> list[tuple[str, str, bool]]:
        return [(m.role, m.text, m.partial) for m in self.store.read("s")]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    store = SpawnStore(str(tmp_path))
    store.create(Session(id="s", agent="qa-test"))
    with store.open("s") as writer:
        yield Desk(tmp_path, writer, store)


@pytest.mark.req("SPAWN-03", "MODEL-02")
def test_message_and_answer_are_stored_and_sent_with_the_next_request(desk: Desk) -> None:
    talk, model = desk.talk(
        [Thinking("hm"), AnswerText("He"), AnswerNote("slow"), AnswerText("llo"), Done(usage=Usage(7, 3), model="big")],
        [AnswerText("again"), Done()],
    )
    talk.warm()
    talk.say("hi")
    assert desk.stored() == [("user", "hi", False)], "durable before the model is asked"
    events = [event for event in talk.answer() if not isinstance(event, Tick)]
    assert [type(event).__name__ for event in events] == ["Thinking", "AnswerText", "AnswerNote", "AnswerText", "Done"]
    reply = talk.reply
    assert reply is not None and (reply.content, reply.tokens, reply.model) == ("Hello", 3, "big")
    assert reply.usage == {"input_tokens": 7, "output_tokens": 3}
    assert [part.type for part in reply.parts or ()] == ["thinking", "text"]
    talk.say("more")
    list(talk.answer())
    assert [m.text for m in model.asked[1].messages] == ["hi", "Hello", "more"]
    assert talk.reply is not None and talk.reply.tokens == 2 and talk.reply.usage is None


@pytest.mark.req("SPAWN-10")
def test_a_stop_from_another_thread_keeps_the_partial_reply_out_of_the_context(desk: Desk) -> None:
    begun = threading.Event()
    talk, model = desk.talk([AnswerText("half "), begun], [AnswerText("whole"), Done()])
    talk.say("one")

    def stop() -> None:
        assert begun.wait(20)
        talk.stop()

    stopper = threading.Thread(target=stop)
    stopper.start()
    list(talk.answer())
    stopper.join()
    assert talk.stopped and model.cancelled.is_set()
    assert desk.stored() == [("user", "one", False), ("assistant", "half ", True)]
    talk.say("two")
    list(talk.answer())
    assert [m.text for m in model.asked[1].messages] == ["one", UNANSWERED, "two"]


@pytest.mark.req("SPAWN-10", "MODEL-02")
@pytest.mark.parametrize(
    "script", [[], [AnswerText("some")], [AnswerText("some"), AnswerText(" more")], [Thinking("hm")]]
)
def test_an_error_is_raised_after_the_partial_reply_was_stored(desk: Desk, script: Script) -> None:
    talk, _ = desk.talk([*script, ModelCut("the line broke")])
    talk.say("one")
    with pytest.raises(ModelCut):
        list(talk.answer())
    text = "".join(item.text for item in script if isinstance(item, AnswerText))
    assert desk.stored()[1:] == ([("assistant", text, True)] if script else [])
    assert talk.view.turns == 1 and talk.view.awaits_answer


def test_a_stream_without_its_last_event_is_a_partial_reply(desk: Desk) -> None:
    talk, _ = desk.talk([AnswerText("and th")])
    talk.say("one")
    with pytest.raises(ModelCut, match="broke off"):
        list(talk.answer())
    assert desk.stored()[1] == ("assistant", "and th", True)


def test_closing_the_iterator_stops_the_model_and_keeps_the_partial_reply(desk: Desk) -> None:
    talk, model = desk.talk([AnswerText("first"), threading.Event()])
    talk.say("one")
    answer = talk.answer()
    assert next(answer) == AnswerText("first")
    answer.close()
    assert model.cancelled.is_set() and desk.stored()[1] == ("assistant", "first", True)


@pytest.mark.req("STORE-07", "SPAWN-03")
def test_a_reply_that_cannot_be_written_is_stored_before_the_next_message(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk, model = desk.talk([AnswerText("A long reply."), Done()], [AnswerText("Good."), Done()])
    talk.say("one")

    class Full:
        """The writer of a full disk."""

        def append(self, *messages: Message) -> list[Message]:
            raise WriteFailed("no space")

    talk.writer = Full()  # type: ignore[assignment]
    with pytest.raises(WriteFailed) as refused:
        list(talk.answer())
    assert "in memory" in refused.value.kept
    with pytest.raises(WriteFailed):
        talk.say("two")
    assert [m.content for m in talk.pending] == ["A long reply."] and talk.view.turns == 1
    talk.writer = desk.writer
    talk.say("two")
    list(talk.answer())
    assert [text for _, text, _ in desk.stored()] == ["one", "A long reply.", "two", "Good."]
    assert [m.text for m in model.asked[1].messages] == ["one", "A long reply.", "two"]


class Adder:
    """A tool for the model."""

    def __init__(self) -> None:
        self.specs = [ToolSpec("add", "adds", {"type": "object"})]

    def run(self, call: CallRequest) -> Part:
        return Part(type=TOOL_RESULT, call_id=call.id, name=call.name, output=str(sum(call.input["numbers"])))


@pytest.mark.req("MODEL-02")
def test_tools_run_and_their_results_are_stored_and_sent_until_there_is_an_answer(desk: Desk) -> None:
    call = CallRequest("c1", "add", {"numbers": [1, 2]})
    talk, model = desk.talk([AnswerText("Let me see."), call, Done("tools")], [AnswerText("It is 3."), Done()])
    talk.tools = Adder()
    talk.say("1 + 2?")
    events = list(talk.answer())
    assert [event.part.output for event in events if isinstance(event, CallResult)] == ["3"]
    assert [role for role, _, _ in desk.stored()] == ["user", "assistant", "tool", "assistant"]
    sent = model.asked[1].messages
    assert sent[1].parts is not None and [part.type for part in sent[1].parts] == ["text", "tool_call"]
    assert sent[2].parts is not None and sent[2].parts[0].output == "3"
    assert model.asked[0].tools == Adder().specs


def test_a_model_that_only_ever_calls_tools_is_stopped(desk: Desk) -> None:
    scripts: list[Script] = [[CallRequest(f"c{n}", "add", {"numbers": [n]}), Done("tools")] for n in range(ROUNDS)]
    talk, _ = desk.talk(*scripts)
    talk.tools = Adder()
    talk.say("go")
    with pytest.raises(ModelCut, match="without giving an answer"):
        list(talk.answer())


def test_a_reply_that_cannot_be_encoded_is_refused_once(desk: Desk) -> None:
    deep: dict[str, object] = {}
    for _ in range(500):
        deep = {"deeper": deep}
    talk, _ = desk.talk([CallRequest("c", "add", deep), Done("tools")], [AnswerText("Better."), Done()])
    talk.say("one")
    with pytest.raises(InvalidMessage):
        list(talk.answer())
    talk.say("two")
    list(talk.answer())
    assert [text for _, text, _ in desk.stored()] == ["one", "two", "Better."]


def test_a_stop_before_the_model_is_asked_stops_the_turn_once(desk: Desk) -> None:
    talk, model = desk.talk([AnswerText("never"), Done()])
    talk.say("one")
    talk.stop()
    assert list(talk.answer()) == [] and talk.stopped and model.asked == []
    assert AnswerText("never") in list(talk.answer()), "the stop applies to one turn only"


@pytest.mark.parametrize(("stop", "reason"), [("end", ""), ("length", "limit"), ("filtered", "filter")])
def test_an_empty_answer_is_an_error_and_the_question_stays_unanswered(desk: Desk, stop: str, reason: str) -> None:
    talk, _ = desk.talk([Thinking("hm"), Done(stop)], [AnswerText("half"), Done(stop)])
    talk.say("one")
    with pytest.raises(ModelCut, match=f"empty answer.*{reason}"):
        list(talk.answer())
    assert talk.view.awaits_answer and desk.stored()[1:] == [("assistant", "", True)], (
        "the thinking is kept, but not in the context"
    )
    list(talk.answer())
    assert (talk.cut_reason, talk.view.cut_reason) == (("", "") if stop == "end" else (stop, stop))
