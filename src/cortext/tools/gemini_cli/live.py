"""Gemini CLI at work: opened with a session on a terminal, or asked for one answer.

For an answer (`-o stream-json`) it streams its messages.
"""

from __future__ import annotations

import glob
import os
import uuid
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from cortext.errors import CortextError
from cortext.io import durable
from cortext.model.answer import AnswerNote, AnswerPiece, HeadlessPrompt, ProgramFailure, Run, Usage
from cortext.tools.base import Launch
from cortext.tools.gemini_cli.adapter import GeminiCli, gate_environment
from cortext.tools.gemini_cli.settings import RETENTION, resume_configs
from cortext.tools.shared.installer import install
from cortext.tools.shared.jsonc import read_object
from cortext.tools.shared.parts import ToolPart
from cortext.tools.shared.program import (
    AnswerReader,
    check_argument,
    system_file,
    with_file_names,
    without_file_names,
)
from cortext.tools.shared.values import count, field, word


def interactive(tool: GeminiCli, key: str, path: str, *, project: str, prompt: str, model: str) -> Launch:
    """Return how to open a session interactively; the prompt, if any, is sent first.

    Gemini CLI may delete a resumed session at its next start, and may send the prompt before the history is loaded.
    Entries in the project's settings prevent both. Without a `path` there is no session to protect: the command line is
    only shown.
    """
    check_argument(prompt)
    options = [*(["-m", model] if model else []), *(["-i", prompt] if prompt else [])]
    launch = Launch(argv=[tool.program.executable(), "--resume", key, *options], cwd=project)
    if path:
        launch.changed = _prepare(tool.folder, project, is_gated=bool(prompt))
    if path and prompt:
        launch.env = gate_environment(path)
    return launch


def _prepare(folder: str, project: str, *, is_gated: bool) -> list[str]:
    """Prepare the project's settings for a resume, never the user's; return the files that changed.

    A settings file of our own, named in the environment, is not an option: Gemini CLI accepts one only if it is owned
    by root.
    """
    if os.path.realpath(os.path.join(project, ".gemini")) == os.path.realpath(folder):
        return []  # these are the user's settings
    setting = field(read_object(os.path.join(folder, "settings.json")), *RETENTION)
    if not is_gated and setting is False:
        return []
    return install(project, resume_configs(keep=setting is not False, gate=is_gated))


class GeminiHeadless(ToolPart[GeminiCli]):
    """Gemini CLI without its terminal interface."""

    def ask(self, question: HeadlessPrompt) -> Run:
        """Return how to run it for one answer: in a scratch folder that it may trust, with the user's folder."""
        key = str(uuid.uuid4())
        arguments = ["-o", "stream-json", "--skip-trust", "--session-id", key]
        # Gemini CLI splits this option at commas, so it cannot name a folder with a comma.
        arguments += ["--include-directories", question.folder] if "," not in question.folder else []
        arguments += ["-m", question.model] if question.model else []
        system = question.system.strip()
        return Run(
            arguments=arguments,
            stdin=without_file_names(question.prompt),
            read=GeminiAnswer(question.name).read,
            env={"GEMINI_SYSTEM_MD": system_file(question.scratch, question.system)} if system else {},
            folder=question.scratch,
            clean_up=partial(_remove_session, key, question.environ),
        )


class GeminiAnswer(AnswerReader):
    """Reads chunks of messages, tool calls between them, and the final result."""

    def read(self, record: dict[str, Any]) -> Iterator[AnswerPiece]:
        """Yield the events of one record."""
        kind = record.get("type")
        if kind == "message" and record.get("role") == "assistant":
            yield from self._text(with_file_names(word(record, "content")))
        elif kind == "tool_use":
            self._begins_paragraph = True
            yield AnswerNote(f"{self.name} uses {word(record, 'tool_name')}")
        elif kind == "error":
            yield AnswerNote(f"{self.name}: {word(record, 'message')}")
        elif kind == "result":
            if record.get("status") != "success":
                yield ProgramFailure(word(record.get("error"), "message"))
                return
            stats = record.get("stats")
            # The model that used the most tokens gave the answer; the others did auxiliary work.
            models = field(stats, "models")
            if isinstance(models, dict) and models:
                self._model = max(models, key=lambda name: count(models[name], "total_tokens"))
            yield self._done(Usage(count(stats, "input_tokens"), count(stats, "output_tokens")))


def _remove_session(key: str, environ: Mapping[str, str]) -> None:
    """Remove the session file of this turn: Gemini CLI has no option to store nothing."""
    home = environ.get("GEMINI_CLI_HOME") or environ.get("HOME", "")
    pattern = os.path.join(glob.escape(home), ".gemini", "tmp", "*", "chats", f"session-*-{key[:8]}.jsonl")
    for path in glob.glob(pattern):
        try:
            with open(path, encoding="utf-8", errors="replace", opener=durable.plain_file) as file:
                is_ours = key in file.readline(1 << 16)
            if is_ours:
                durable.remove(path)
        except (OSError, CortextError):
            pass  # a leftover file must not cost the user the answer
