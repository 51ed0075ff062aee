"""While the tool runs: its hooks, in any order and number; and its program without a screen."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from cortext.model.answer import Done, Note, Text, Thinking
from cortext.model.headless import Failure, Question
from cortext.services.hooks import handle
from cortext.testing.reading import Conformance
from cortext.tools.base import Headless, HookEvent, Hooks, TranscriptSource
from cortext.wiring.stores import Stores

KINDS = ("started", "prompt", "command", "answered", "compacted", "ended", "other")
ODD: tuple[Any, ...] = (None, 7, "x", [], {}, {"type": 5})


class HooksConformance(Conformance):
    """`Hooks`."""

    @pytest.fixture
    def hooks(self, tool: TranscriptSource) -> Hooks:
        """The adapter, if its tool calls us."""
        if not isinstance(tool, Hooks):
            pytest.skip("this tool has no hooks")
        return tool

    def test_events_are_understood(self, home: Path, hooks: Hooks, project: Path) -> None:
        self.samples.save(home)
        key = self.only(hooks).key
        payloads = self.samples.payloads(home, project)

        assert {"prompt", "answered"} <= {kind for kind, _ in payloads}
        for kind, payload in payloads:
            event = hooks.hook_event(payload)
            assert event is not None, payload
            assert (event.kind, event.key) == (kind, key)
            assert event.kind in KINDS

    def test_payloads_of_any_shape_are_no_crash(self, home: Path, hooks: Hooks, project: Path) -> None:
        assert hooks.hook_event({}) is None
        for _, payload in self.samples.payloads(home, project):
            for name, odd in itertools.product(payload, ODD):
                event = hooks.hook_event({**payload, name: odd})
                if event is not None:
                    for field in HookEvent.__struct_fields__:
                        assert isinstance(getattr(event, field), str), (name, odd)
                hooks.hook_answer({**payload, name: odd}, "context")

    def test_an_answer_is_one_line_of_json_or_nothing(self, home: Path, hooks: Hooks, project: Path) -> None:
        answered = []
        for _, payload in self.samples.payloads(home, project):
            assert hooks.hook_answer(payload, "") == ""
            answer = hooks.hook_answer(payload, 'give\n"this"')
            if answer:
                assert "\n" not in answer
                assert 'give\\n\\"this\\"' in answer
                answered.append(json.loads(answer))
        assert answered, "no event takes words to the model"

    @pytest.mark.parametrize("order", ["as it happened", "each twice", "backwards", "only the last", "twice over"])
    def test_hooks_in_any_order_keep_every_message_once(
        self, home: Path, hooks: Hooks, project: Path, order: str
    ) -> None:
        payloads = [payload for _, payload in self.samples.payloads(home, project)]
        played = {
            "as it happened": payloads,
            "each twice": [payload for payload in payloads for _ in range(2)],
            "backwards": payloads[::-1],
            "only the last": payloads[-1:],
            "twice over": payloads * 2,
        }[order]
        for number, payload in enumerate(played):
            # The conversation goes on while its events come in.
            self.samples.save(home, max(1, self.samples.records * number // len(played)))
            handle(lambda _: Stores(str(project)), hooks, json.dumps(payload).encode())
        self.samples.save(home)
        for payload in payloads:
            handle(lambda _: Stores(str(project)), hooks, json.dumps(payload).encode())

        named_store = Stores(str(project)).home_store()
        (session,) = named_store.store.sessions()
        kept = [(message.role, message.text) for message in named_store.store.read(session.id)]
        assert sorted(kept) == sorted(self.samples.said)
        assert session.origin.tool == hooks.name


class HeadlessConformance(Conformance):
    """`Headless`."""

    @pytest.fixture
    def headless(self, tool: TranscriptSource) -> Headless:
        """The adapter, if its program answers without a screen."""
        if not isinstance(tool, Headless):
            pytest.skip("the program has a screen only")
        return tool

    def ask(self, headless: Headless, folder: Path, system: str = "the rules") -> Any:
        """A run."""
        scratch = folder / "scratch"
        scratch.mkdir(exist_ok=True)
        name = f"cli/{headless.name}"
        return headless.ask(
            Question(name=name, system=system, prompt="the words", folder=str(folder), scratch=str(scratch))
        )

    @pytest.mark.parametrize("times", [1, 20_000])
    def test_nothing_of_the_conversation_stands_in_the_arguments(
        self, headless: Headless, tmp_path: Path, times: int
    ) -> None:
        run = self.ask(headless, tmp_path, "the rules" * times)

        assert "the words" in run.stdin
        assert not any("the rules" in word or "the words" in word for word in run.arguments)
        assert all(len(value) < 128 * 1024 for value in (*run.arguments, *run.env.values()))

    def test_what_the_program_writes_is_understood(self, headless: Headless, tmp_path: Path) -> None:
        run = self.ask(headless, tmp_path)

        events = [event for line in self.samples.answer_lines for event in run.read(dict(line))]

        assert "".join(event.text for event in events if isinstance(event, Text)) == self.samples.answer != ""
        assert isinstance(events[-1], Done)
        assert sum(isinstance(event, Done) for event in events) == 1

    def test_a_failure_is_one(self, headless: Headless, tmp_path: Path) -> None:
        assert self.samples.failure_lines
        for line in self.samples.failure_lines:
            *_, last = self.ask(headless, tmp_path).read(dict(line))
            assert isinstance(last, Failure)

    def test_lines_of_any_shape_are_no_crash(self, headless: Headless, tmp_path: Path) -> None:
        run = self.ask(headless, tmp_path)
        for line in (*self.samples.answer_lines, *self.samples.failure_lines):
            for name, odd in itertools.product([*line, "more"], ODD):
                for event in run.read({**line, name: odd}):
                    assert isinstance(event, Text | Thinking | Note | Done | Failure)
