"""Codex as a headless model (`exec --json`). It reports each item when it is complete."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cortext.model.answer import AnswerNote, AnswerPiece, HeadlessPrompt, ProgramFailure, Run, Thinking, Usage
from cortext.tools.codex.adapter import Codex
from cortext.tools.shared.headless import Reader, instructions
from cortext.tools.shared.parts import ToolPart
from cortext.tools.shared.values import count, field, word


class CodexHeadless(ToolPart[Codex]):
    """Codex without its terminal interface."""

    def ask(self, question: HeadlessPrompt) -> Run:
        """Return how to run Codex for one answer: no rollout file, no writes."""
        arguments = ["exec", "--json", "--ephemeral", "--skip-git-repo-check", "--sandbox", "read-only"]
        arguments += ["-m", question.model] if question.model else []
        # The instructions are not an argument: every user of the machine could read it.
        stdin = instructions(question.system) + question.prompt
        return Run(arguments=[*arguments, "-"], stdin=stdin, read=CodexAnswer(question.name).read)


class CodexAnswer(Reader):
    """Reads the items of an answer as Codex completes them."""

    def read(self, record: dict[str, Any]) -> Iterator[AnswerPiece]:
        """Yield the events of one line."""
        kind, item = record.get("type"), record.get("item")
        if kind == "item.completed" and field(item, "type") == "agent_message":
            yield from self._piece(word(item, "text"))
        elif kind == "item.completed" and field(item, "type") == "reasoning":
            yield Thinking(word(item, "text"))
        elif kind == "item.started" and field(item, "type") == "command_execution":
            yield AnswerNote(f"{self.name} runs {word(item, 'command')}")
        elif kind == "turn.completed":
            usage = record.get("usage")
            yield self._done(Usage(count(usage, "input_tokens"), count(usage, "output_tokens")))
        elif kind == "turn.failed":
            yield ProgramFailure(word(record.get("error"), "message"))
