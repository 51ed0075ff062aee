"""Gemini CLI in headless mode (`-o stream-json`), which streams its answer."""

from __future__ import annotations

import glob
import os
import uuid
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from cortext.errors import CortextError
from cortext.io import durable
from cortext.model.answer import AnswerNote, AnswerPiece, AnswerText, HeadlessPrompt, ProgramFailure, Run, Usage
from cortext.tools.gemini_cli.adapter import GeminiCli
from cortext.tools.shared.headless import Reader, system_file, with_file_names, without_file_names
from cortext.tools.shared.parts import ToolPart
from cortext.tools.shared.values import count, field, word


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


class GeminiAnswer(Reader):
    """Reads chunks of messages, tool calls between them, and the final result."""

    _new_paragraph = False

    def read(self, record: dict[str, Any]) -> Iterator[AnswerPiece]:
        """Yield the events of one record."""
        kind = record.get("type")
        if kind == "message" and record.get("role") == "assistant":
            if text := with_file_names(word(record, "content")):
                yield AnswerText(f"\n\n{text}" if self._new_paragraph and self._has_text else text)
                self._has_text, self._new_paragraph = True, False
        elif kind == "tool_use":
            self._new_paragraph = True
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
