"""Codex at work: opened with a thread on a terminal, or asked for one answer, and with which provider of models.

For an answer (`exec --json`) it reports each item when it is complete.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from typing import Any

from cortext.errors import NotFound
from cortext.io import durable
from cortext.model.answer import AnswerNote, AnswerPiece, HeadlessPrompt, ProgramFailure, Run, Thinking, Usage
from cortext.tools.base import Launch
from cortext.tools.codex.adapter import Codex
from cortext.tools.codex.pages import scan
from cortext.tools.shared.parts import ToolPart
from cortext.tools.shared.program import AnswerReader, check_argument, instructions
from cortext.tools.shared.values import count, field, word

# Codex cannot resume an archived thread, so it is unarchived first.
_UNARCHIVE = '"$0" unarchive "$1" >/dev/null && shift && exec "$0" "$@"'
DEFAULT = "openai"  # the default of Codex
_MACHINE = "/etc/codex"  # the settings of the machine: managed ones, and defaults


def interactive(tool: Codex, key: str, *, project: str, prompt: str, model: str) -> Launch:
    """Return how to start Codex interactively with a thread open; it sends the prompt at once."""
    program = tool.program.path()
    if not program:
        raise NotFound(
            "Codex is not installed here",
            kept="nothing was changed",
            hint=f"install it with `{tool.install_command}`, or choose another tool with --ai",
        )
    check_argument(prompt)
    options = ["-m", model] if model else []
    arguments = ["resume", *options, key, *(["--", prompt] if prompt else [])]
    argv = [program, *arguments]
    if any(page.thread == key for page in scan(tool.archive)):
        argv = ["/bin/sh", "-c", _UNARCHIVE, program, key, *arguments]
    default = os.path.join(tool.environ.get("HOME", ""), ".codex")
    env = {} if tool.folder == default else {"CODEX_HOME": tool.folder}
    return Launch(argv=argv, cwd=project, env=env)


def current_provider(folder: str) -> str:
    """Return the provider in the settings of this home or machine, else the default; empty if they are unreadable."""
    for path in (f"{_MACHINE}/managed_config.toml", os.path.join(folder, "config.toml"), f"{_MACHINE}/config.toml"):
        try:
            chosen = _chosen(tomllib.loads(durable.read_text(path)))
        except FileNotFoundError:
            continue
        except (OSError, ValueError, RecursionError):  # Codex reports it
            return ""
        if chosen:
            return chosen
    return DEFAULT


def _chosen(settings: dict[str, Any]) -> str:
    profiles = settings.get("profiles")
    profile = profiles.get(settings.get("profile")) if isinstance(profiles, dict) else None
    chosen = profile.get("model_provider") if isinstance(profile, dict) else None
    chosen = chosen or settings.get("model_provider")
    return chosen if isinstance(chosen, str) else ""


class CodexHeadless(ToolPart[Codex]):
    """Codex without its terminal interface."""

    def ask(self, question: HeadlessPrompt) -> Run:
        """Return how to run Codex for one answer: no rollout file, no writes."""
        arguments = ["exec", "--json", "--ephemeral", "--skip-git-repo-check", "--sandbox", "read-only"]
        arguments += ["-m", question.model] if question.model else []
        # The instructions are not an argument: every user of the machine could read it.
        stdin = instructions(question.system) + question.prompt
        return Run(arguments=[*arguments, "-"], stdin=stdin, read=CodexAnswer(question.name).read)


class CodexAnswer(AnswerReader):
    """Reads the items of an answer as Codex completes them."""

    def read(self, record: dict[str, Any]) -> Iterator[AnswerPiece]:
        """Yield the events of one line."""
        kind, item = record.get("type"), record.get("item")
        if kind == "item.completed" and field(item, "type") == "agent_message":
            yield from self._paragraph(word(item, "text"))
        elif kind == "item.completed" and field(item, "type") == "reasoning":
            yield Thinking(word(item, "text"))
        elif kind == "item.started" and field(item, "type") == "command_execution":
            yield AnswerNote(f"{self.name} runs {word(item, 'command')}")
        elif kind == "turn.completed":
            usage = record.get("usage")
            yield self._done(Usage(count(usage, "input_tokens"), count(usage, "output_tokens")))
        elif kind == "turn.failed":
            yield ProgramFailure(word(record.get("error"), "message"))
