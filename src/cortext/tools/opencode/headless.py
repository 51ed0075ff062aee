"""OpenCode in headless mode (`run --format json`), which prints each part when it is complete."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from cortext.model.answer import AnswerNote, AnswerPiece, HeadlessPrompt, ProgramFailure, Run, Thinking, Usage
from cortext.tools.opencode.adapter import OpenCode
from cortext.tools.shared.headless import LONGEST, Reader, instructions
from cortext.tools.shared.parts import ToolPart
from cortext.tools.shared.values import count, field, word

_AGENT = "cortext"


class OpenCodeHeadless(ToolPart[OpenCode]):
    """OpenCode without its terminal interface."""

    def ask(self, question: HeadlessPrompt) -> Run:
        """Return how to run it for one answer; its database is kept in memory, so that nothing is stored."""
        system, prompt = question.system, question.prompt
        arguments = ["run", "--pure", "--format", "json", "--thinking", "--agent", _AGENT]
        arguments += ["-m", question.model] if "/" in question.model else []
        agent: dict[str, Any] = {"mode": "primary", "permission": {"edit": "deny", "bash": "deny"}}
        if 0 < len(system.encode("utf-8", "replace")) < LONGEST and "\0" not in system:
            agent["prompt"] = system
        else:
            prompt = instructions(system) + prompt
        try:
            settings = json.loads(question.environ.get("OPENCODE_CONFIG_CONTENT") or "{}")
        except ValueError:
            settings = {}
        agents = field(settings, "agent")
        content = {**settings, "agent": {**(agents if isinstance(agents, dict) else {}), _AGENT: agent}}
        variables = {"OPENCODE_DB": ":memory:"}
        variables |= {"OPENCODE_DISABLE_PROJECT_CONFIG": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"}
        return Run(
            arguments=arguments,
            stdin=prompt,
            read=OpenCodeAnswer(question.name).read,
            env={**variables, "OPENCODE_CONFIG_CONTENT": json.dumps(content)},
        )


class OpenCodeAnswer(Reader):
    """Reads parts and the steps around them; the last step is the one that did not stop for a tool call."""

    _input = _output = -1

    def read(self, record: dict[str, Any]) -> Iterator[AnswerPiece]:
        """Yield the events of one record."""
        kind, part = record.get("type"), record.get("part")
        if kind == "text":
            yield from self._piece(word(part, "text"))
        elif kind == "reasoning":
            yield Thinking(word(part, "text"))
        elif kind == "tool_use":
            yield AnswerNote(f"{self.name} uses {word(part, 'tool')}")
        elif kind == "error":
            error = record.get("error")
            yield ProgramFailure(word(field(error, "data"), "message") or word(error, "name") or str(error))
        elif kind == "step_finish":
            tokens = field(part, "tokens")
            self._input = max(count(tokens, "input"), self._input)
            self._output = max(count(tokens, "output"), self._output)
            reason = word(part, "reason")
            if reason != "tool-calls":
                stop = {"length": "length", "content-filter": "filtered"}.get(reason, "end")
                yield self._done(Usage(self._input, self._output), stop)
