"""Hooks, in any order and number, and the program without its terminal interface."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from cortext.model.answer import AnswerNote, AnswerText, Done, HeadlessPrompt, ProgramFailure, Thinking
from cortext.model.asides import is_beside
from cortext.model.message import USER
from cortext.services.events.hooks import handle
from cortext.testing.reading import Conformance
from cortext.testing.table import table
from cortext.tools.base import Headless, HookEvent, Hooks, TranscriptSource
from cortext.wiring.stores import Stores

KINDS = ("started", "prompt", "command", "answered", "compacted", "ended", "other")
WRONG_VALUES: tuple[Any, ...] = (None, 7, "x", [], {}, {"type": 5})

Payloads = list[dict[str, Any]]
ORDERS: dict[str, Callable[[Payloads], Payloads]] = {
    "in order": lambda payloads: payloads,
    "each twice": lambda payloads: [payload for payload in payloads for _ in range(2)],
    "backwards": lambda payloads: payloads[::-1],
    "only the last": lambda payloads: payloads[-1:],
    "all repeated": lambda payloads: payloads * 2,
}


class HooksConformance(Conformance):
    """`Hooks`."""

    needs: ClassVar[type] = Hooks

    @pytest.fixture
    def hooks(self, tool: TranscriptSource) -> Hooks:
        """Return the adapter."""
        assert isinstance(tool, Hooks)
        return tool

    def test_every_payload_is_an_event_of_its_kind(self, home: Path, hooks: Hooks, project: Path) -> None:
        self.samples.save(home)
        key = self.only_transcript(hooks).key
        payloads = self.samples.payloads(home, project)

        assert "answered" in {kind for kind, _ in payloads}
        for kind, payload in payloads:
            event = hooks.hook_event(payload)
            assert event is not None, payload
            assert (event.kind, event.key) == (kind, key)
            assert event.kind in KINDS

    def test_malformed_payloads_are_tolerated(self, home: Path, hooks: Hooks, project: Path) -> None:
        assert hooks.hook_event({}) is None
        for _, payload in self.samples.payloads(home, project):
            for name, wrong in itertools.product(payload, WRONG_VALUES):
                event = hooks.hook_event({**payload, name: wrong})
                if event is not None:
                    for field in HookEvent.__struct_fields__:
                        assert isinstance(getattr(event, field), str), (name, wrong)
                hooks.hook_answer({**payload, name: wrong}, "context")

    def test_an_answer_is_one_line_of_json_or_nothing(self, home: Path, hooks: Hooks, project: Path) -> None:
        answered = []
        for _, payload in self.samples.payloads(home, project):
            assert hooks.hook_answer(payload, "") == ""
            answer = hooks.hook_answer(payload, 'give\n"this"')
            if answer:
                assert "\n" not in answer
                assert 'give\\n\\"this\\"' in answer
                answered.append(json.loads(answer))
        assert answered, "no event can give a text to the model"

    def test_hooks_in_any_order_keep_every_message_once(
        self, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with table() as row:
            for order, arrange in ORDERS.items():
                with row(order):
                    folder = tmp_path / order
                    for name in ("home", "project"):
                        (folder / name).mkdir(parents=True)
                    monkeypatch.setenv("HOME", str(folder / "home"))
                    self._send(folder / "home", folder / "project", arrange)

    def _send(self, home: Path, project: Path, arrange: Callable[[Payloads], Payloads]) -> None:
        """Send the payloads in this order, then in their own; check that every message is kept once."""
        hooks = self.samples.tool(home)
        assert isinstance(hooks, Hooks)
        payloads = [payload for _, payload in self.samples.payloads(home, project)]
        sent = arrange(payloads)
        for number, payload in enumerate(sent):
            # The conversation grows while its events arrive.
            self.samples.save(home, max(1, self.samples.records * number // len(sent)))
            handle(lambda _: Stores(str(project)), hooks, json.dumps(payload).encode())
        self.samples.save(home)
        for payload in payloads:
            handle(lambda _: Stores(str(project)), hooks, json.dumps(payload).encode())

        store = Stores(str(project)).home_store().store
        (session,) = store.sessions()
        # What the program said by itself is stored as the system's.
        kept = [(USER if is_beside(message) else message.role, message.text) for message in store.read(session.id)]
        assert sorted(kept) == sorted(self.samples.messages)
        assert session.origin.tool == hooks.name


class HeadlessConformance(Conformance):
    """`Headless`."""

    needs: ClassVar[type] = Headless

    @pytest.fixture
    def headless(self, tool: TranscriptSource) -> Headless:
        """Return the adapter."""
        assert isinstance(tool, Headless)
        return tool

    def ask(self, headless: Headless, folder: Path, system: str = "the rules") -> Any:
        """Return the run for a question."""
        scratch = folder / "scratch"
        scratch.mkdir(exist_ok=True)
        name = f"cli/{headless.name}"
        return headless.ask(
            HeadlessPrompt(name=name, system=system, prompt="the question", folder=str(folder), scratch=str(scratch))
        )

    @pytest.mark.parametrize("times", [1, 20_000])
    def test_the_arguments_contain_nothing_of_the_conversation(
        self, headless: Headless, tmp_path: Path, times: int
    ) -> None:
        run = self.ask(headless, tmp_path, "the rules" * times)

        assert "the question" in run.stdin
        assert not any("the rules" in argument or "the question" in argument for argument in run.arguments)
        assert all(len(value) < 128 * 1024 for value in (*run.arguments, *run.env.values()))

    def test_the_output_of_the_program_is_the_answer(self, headless: Headless, tmp_path: Path) -> None:
        run = self.ask(headless, tmp_path)

        events = [event for line in self.samples.answer_lines for event in run.read(dict(line))]

        assert "".join(event.text for event in events if isinstance(event, AnswerText)) == self.samples.answer != ""
        assert isinstance(events[-1], Done)
        assert sum(isinstance(event, Done) for event in events) == 1

    def test_a_failure_is_reported_as_one(self, headless: Headless, tmp_path: Path) -> None:
        assert self.samples.failure_lines
        for line in self.samples.failure_lines:
            *_, last = self.ask(headless, tmp_path).read(dict(line))
            assert isinstance(last, ProgramFailure)

    def test_malformed_lines_are_tolerated(self, headless: Headless, tmp_path: Path) -> None:
        run = self.ask(headless, tmp_path)
        for line in (*self.samples.answer_lines, *self.samples.failure_lines):
            for name, wrong in itertools.product([*line, "more"], WRONG_VALUES):
                for event in run.read({**line, name: wrong}):
                    assert isinstance(event, AnswerText | Thinking | AnswerNote | Done | ProgramFailure)
