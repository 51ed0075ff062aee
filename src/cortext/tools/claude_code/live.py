"""Claude Code at work: opened with a session on a terminal, or asked for one answer.

For an answer (`-p --output-format stream-json`) it streams partial messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cortext.model.answer import (
    AnswerNote,
    AnswerPiece,
    HeadlessPrompt,
    ProgramFailure,
    Run,
    Thinking,
    Usage,
)
from cortext.tools.base import Launch
from cortext.tools.claude_code.adapter import ClaudeCode
from cortext.tools.shared.parts import ToolPart
from cortext.tools.shared.program import (
    AnswerReader,
    check_argument,
    system_file,
    with_file_names,
    without_file_names,
)
from cortext.tools.shared.values import count, field, word


def interactive(tool: ClaudeCode, key: str, *, project: str, prompt: str, model: str) -> Launch:
    """Return how to start Claude Code interactively with a session open."""
    check_argument(prompt)
    options = ["--model", model] if model else []
    # After "--" a prompt that begins with a dash is not taken for an option.
    prompt_arguments = ["--", prompt] if prompt else []
    return Launch(argv=[tool.program.executable(), "--resume", key, *options, *prompt_arguments], cwd=project)


class ClaudeHeadless(ToolPart[ClaudeCode]):
    """Claude Code without its terminal interface."""

    def ask(self, question: HeadlessPrompt) -> Run:
        """Return how to run Claude Code for one answer: no session file, no hooks, no MCP servers, read-only tools."""
        arguments = ["-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages"]
        arguments += ["--no-session-persistence", "--setting-sources", "user", "--strict-mcp-config"]
        arguments += ["--settings", '{"disableAllHooks": true}', "--tools", "Read,Glob,Grep"]
        arguments += ["--model", question.model] if question.model else []
        if question.system.strip():
            arguments += ["--system-prompt-file", system_file(question.scratch, question.system)]
        return Run(
            arguments=arguments,
            stdin=without_file_names(question.prompt),
            read=ClaudeAnswer(question.name).read,
            # By default it retries for three minutes.
            env={"CLAUDE_CODE_MAX_RETRIES": question.environ.get("CLAUDE_CODE_MAX_RETRIES", "3")},
            # With these variables, set inside Claude Code, it would take itself for a nested run.
            without=("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT"),
        )


class ClaudeAnswer(AnswerReader):
    """Reads API stream events, and the records that Claude Code adds around them."""

    _is_open = False  # whether text of an unfinished message was already passed on

    def read(self, record: dict[str, Any]) -> Iterator[AnswerPiece]:
        """Yield the events of one line."""
        kind = record.get("type")
        if record.get("parent_tool_use_id"):
            return  # output of a subagent
        if kind == "stream_event":
            yield from self._streamed(record.get("event"), bool(record.get("abandoned_blocks")))
        elif kind == "system" and record.get("subtype") == "api_retry":
            if self._is_open:
                yield ProgramFailure(broke_off=True)
            elif record.get("error_status") in (401, 403):  # a retry cannot make a key valid
                yield ProgramFailure(word(record, "error"), 401)
            else:
                yield AnswerNote(f"{self.name}: {word(record, 'error') or 'request failed'}: retrying")
        elif kind == "result":
            if record.get("is_error"):
                status = record.get("api_error_status")
                yield ProgramFailure(word(record, "result"), status if isinstance(status, int) else 0)
                return
            usage = record.get("usage")
            sent = count(usage, "input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
            stop = {"max_tokens": "length", "refusal": "filtered"}.get(word(record, "stop_reason"), "end")
            yield self._done(Usage(sent, count(usage, "output_tokens")), stop)

    def _streamed(self, event: Any, abandoned: bool) -> Iterator[AnswerPiece]:
        kind = field(event, "type")
        if kind == "message_start":
            self._model = word(field(event, "message"), "model") or self._model
        elif kind == "content_block_start":
            block = field(event, "content_block")
            self._begins_paragraph = field(block, "type") == "text"
            if field(block, "type") == "tool_use":
                yield AnswerNote(f"{self.name} uses {word(block, 'name')}")
        elif kind == "content_block_delta":
            delta = field(event, "delta")
            if thought := word(delta, "thinking"):
                yield Thinking(thought)
            if text := with_file_names(word(delta, "text")):
                self._is_open = True
                yield from self._text(text)
        elif kind == "message_stop":
            if abandoned and self._is_open:
                # Claude Code retries by itself: text that was already passed on would be repeated.
                yield ProgramFailure(broke_off=True)
            self._is_open = False
