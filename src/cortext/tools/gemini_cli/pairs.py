"""Which tool result answers which call, and the order that a strict tool wants: results right behind their calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from cortext.model.message import ASSISTANT, TOOL, TOOL_CALL, TOOL_RESULT, Message

Place = tuple[int, int]  # message, part


class Unit(msgspec.Struct):
    """Something to write: a message, or only some of its results, or a stand-in for results that never came."""

    message: int
    parts: Sequence[int] = ()  # its results to write here; for a stand-in the calls
    whole: bool = True  # whether the rest of the message belongs here as well
    moved: bool = False
    unanswered: bool = False


class Pairs:
    """Calls and results of a conversation, paired by id, each result with the first open call before it."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self.messages = messages
        self.call_of: dict[Place, Place] = {}
        self.answer_of: dict[Place, Place] = {}
        open_calls: dict[str, list[Place]] = {}
        for number, message in enumerate(messages):
            for place, part in enumerate(message.parts or ()):
                if part.type == TOOL_CALL and message.role == ASSISTANT:
                    open_calls.setdefault(part.id, []).append((number, place))
                elif part.type == TOOL_RESULT and open_calls.get(part.call_id):
                    call = open_calls[part.call_id].pop(0)
                    self.call_of[number, place] = call
                    self.answer_of[call] = (number, place)

    def results_of(self, number: int) -> list[int]:
        """The parts of a message that answer a call."""
        return [place for place in range(len(self.messages[number].parts or ())) if (number, place) in self.call_of]

    def orphans(self, number: int) -> set[int]:
        """The results in a message that answer no call."""
        parts = self.messages[number].parts or ()
        results = {place for place, part in enumerate(parts) if part.type == TOOL_RESULT}
        return results - set(self.results_of(number))

    def units(self) -> Iterator[Unit]:
        """Everything there is to write, in order."""
        number, written = 0, set[int]()  # messages that were written whole before their place
        while number < len(self.messages):
            if self.messages[number].role != ASSISTANT:
                if number not in written:
                    yield Unit(number)
                number += 1
                continue
            start = number
            while number < len(self.messages) and self.messages[number].role == ASSISTANT:
                yield Unit(number)
                number += 1
            yield from self._behind(start, number, written)

    def _behind(self, start: int, end: int, written: set[int]) -> Iterator[Unit]:
        """The results of the calls in a run of the model's messages, and stand-ins for those that never came."""
        answers: dict[int, list[int]] = {}
        missing: dict[int, list[int]] = {}
        for number in range(start, end):
            for place, part in enumerate(self.messages[number].parts or ()):
                if part.type == TOOL_CALL:
                    answer = self.answer_of.get((number, place))
                    if answer is None:
                        missing.setdefault(number, []).append(place)
                    else:
                        answers.setdefault(answer[0], []).append(answer[1])
        following = end
        for number in sorted(answers):
            places = sorted(answers[number])
            whole = places == self.results_of(number) and not self.orphans(number)
            if whole:
                written.add(number)
            yield Unit(number, places, whole=whole, moved=number != following)
            following = number + 1
        for number, places in missing.items():
            yield Unit(number, places, unanswered=True)


def separated(messages: Sequence[Message]) -> list[Message]:
    """The same conversation with calls in the model's messages alone, and results in those of others."""
    apart: list[Message] = []
    for message in messages:
        other = TOOL_RESULT if message.role == ASSISTANT else TOOL_CALL
        strange = message.parts_of(other)
        if not strange:
            apart.append(message)
            continue
        rest = [part for part in message.parts or () if part.type != other]
        if rest or message.content:
            apart.append(msgspec.structs.replace(message, parts=rest or None))
        role, name = (TOOL, "results") if other == TOOL_RESULT else (ASSISTANT, "calls")
        apart.append(Message(role=role, id=f"{message.id}/{name}", timestamp=message.timestamp, parts=strange))
    return apart
