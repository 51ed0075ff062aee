"""An installed AI tool as a model, for example `cli/claude`. Its adapter knows how to run it and read its output.

The tool is started for every answer, receives the conversation as a prompt (its messages are data between markers),
and is read line by line. It cannot be given our own tools. It retries by itself if its API is busy, so we do not.
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from typing import Any

from cortext.agents.llm.base import Event, Request
from cortext.agents.llm.connection import Fault, ModelLimits, RequestFailure, WeakItems
from cortext.agents.llm.conversation import Block, CallBlock, ChatTurn, ResultBlock, TextBlock, turns_of_request
from cortext.agents.llm.provider import ModelRequest
from cortext.errors import NoModel, UsageError
from cortext.io import durable
from cortext.model.answer import AnswerNote, Done, Headless, HeadlessPrompt, ProgramFailure, Run
from cortext.model.message import ASSISTANT
from cortext.model.turns import whole_characters
from cortext.safety.credentials import for_child
from cortext.safety.framing import fence, label

_SILENCE_FACTOR = 5  # times the silence that an API is allowed: some programs print nothing before the end
_MAX_LINE_BYTES = 64 << 20
_EXIT_TIMEOUT = 0.5  # seconds that a program has to exit by itself after its answer
_POLL_INTERVAL = 0.2


class CliModel:
    """A program, and optionally the model that it is to use."""

    takes_tools = False

    def __init__(
        self,
        program: Headless,
        model: str,
        limits: ModelLimits,
        *,
        folder: str,
        scratch: str,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        if "\0" in model:
            raise UsageError("the name of the model contains a zero byte", kept="nothing was sent")
        self.name = f"cli/{program.name}/{model}" if model else f"cli/{program.name}"
        self.context = program.headless_context
        self._program, self._model, self._path = program, model, program.program_path()
        self._limits, self._folder, self._environ = limits, folder, environ
        self._scratch = os.path.join(scratch, program.name)
        if not self._path:
            raise NoModel(
                f"{program.title} is not installed here",
                kept="nothing was sent",
                hint=f"install it with: {program.install_command}, or choose another --model",
            )
        hint = f"start `{os.path.basename(self._path)}` once by hand and sign in"
        self._fault = Fault(self.name, key_hint=hint)
        self._active: WeakItems[_Run] = WeakItems()

    def stream(self, request: Request) -> Iterator[Event]:
        """Ask. The run is registered at once, so that a `cancel` before the first event has an effect."""
        run = _Run()
        self._active.add(run)
        return self._answer(request, run)

    def cancel(self) -> None:
        """Stop the active runs: the program and every process that it started."""
        for run in self._active.all():
            run.stop()

    def warm(self) -> None:
        """Do nothing: the program is started for each answer."""

    def _answer(self, request: Request, run: _Run) -> Iterator[Event]:
        has_answer = False
        start = self._start(request)
        silence = self._limits.silence * _SILENCE_FACTOR
        try:
            for record in run.records(self._path, start, self._folder, self._environ, silence):
                for event in start.read(record):
                    if isinstance(event, ProgramFailure):
                        raise self._failed(event)
                    if isinstance(event, AnswerNote):
                        event = AnswerNote(self._fault.words(event.text))
                    else:
                        has_answer = True
                    yield event
                    if isinstance(event, Done):
                        return
            raise self._no_end(run)
        except RequestFailure as failed:
            if run.stopped.is_set():
                raise self._fault.stopped() from None
            raise (self._fault.cut(failed) if has_answer else failed.error) from None
        except OSError as error:
            raise self._fault.program(f"it could not be started: {error}").error from None
        finally:
            run.end()
            if start.clean_up is not None:
                start.clean_up()

    def _start(self, request: Request) -> Run:
        durable.ensure_folder(self._scratch)
        return self._program.ask(
            HeadlessPrompt(
                name=self.name,
                system=whole_characters(request.system).replace("\0", ""),
                prompt=prompt(request).replace("\0", ""),
                model=self._model,
                folder=self._folder,
                scratch=self._scratch,
                environ=self._environ,
            )
        )

    def _failed(self, failure: ProgramFailure) -> RequestFailure:
        if failure.broke_off:
            return self._fault.unfinished()
        return self._fault.program(failure.text, failure.status)

    def _no_end(self, run: _Run) -> RequestFailure:
        """Return why the answer has no end: a timeout, an error that the program printed, or an unknown reason."""
        if run.timed_out:
            return self._fault.silent(self._limits.silence * _SILENCE_FACTOR)
        errors = run.last_errors()
        return self._fault.program(errors) if errors else self._fault.unfinished()


class _Run(ModelRequest):
    """One run of a program."""

    def __init__(self) -> None:
        super().__init__()
        self.timed_out = False
        self._process: subprocess.Popen[bytes] | None = None
        self._errors = b""

    def stop(self) -> None:
        """Kill the program. Safe from any thread."""
        self.stopped.set()
        self._signal(signal.SIGKILL)

    def records(
        self, path: str, start: Run, folder: str, environ: Mapping[str, str], silence: float
    ) -> Iterator[dict[str, Any]]:
        """Run the program and yield the JSON objects that it prints, one for each line, as they arrive."""
        env = {name: value for name, value in for_child(environ).items() if name not in start.without}
        # Our own hooks must capture the user's conversations, not this one.
        env |= {**start.env, "CORTEXT_HOOKS": "off"}
        # Files, not pipes: a long prompt would block on a full pipe, and so would error output that nobody reads.
        with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as errors:
            stdin.write(start.stdin.encode("utf-8", "replace"))
            stdin.seek(0)
            self._process = subprocess.Popen(
                [path, *start.arguments],
                cwd=start.folder or folder,
                env=env,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
            try:
                for line in self._raw_lines(self._process, silence):
                    record = _parsed(line)
                    if record is not None:
                        yield record
            finally:
                self.end()
                errors.seek(max(0, errors.seek(0, os.SEEK_END) - 4_000))
                self._errors = errors.read()

    def _raw_lines(self, process: subprocess.Popen[bytes], silence: float) -> Iterator[bytes]:
        assert process.stdout is not None
        pipe = process.stdout.fileno()
        poll = select.poll()  # select.select fails with file descriptors of 1024 and above
        poll.register(pipe)
        rest = b""
        last_output = time.monotonic()
        while not self.stopped.is_set():
            if poll.poll(_POLL_INTERVAL * 1_000):
                block = os.read(pipe, 1 << 16)
                if not block:
                    break
                last_output = time.monotonic()
                *lines, rest = (rest + block).split(b"\n")
                yield from lines
                if len(rest) > _MAX_LINE_BYTES:
                    return
            elif process.poll() is not None:
                break  # the program has exited, but a child of it keeps the pipe open
            elif time.monotonic() - last_output > silence:
                self.timed_out = True
                return
        if rest:
            yield rest

    def end(self) -> None:
        """Wait for the program to exit, and kill what is left of its process group."""
        process, self._process = self._process, None
        if process is None:
            return
        try:
            if not self.stopped.is_set():
                process.wait(_EXIT_TIMEOUT)
        except subprocess.TimeoutExpired:
            pass  # it can be killed: it has nothing to save, since we store the conversation
        finally:
            _signal(process, signal.SIGKILL)
            process.wait()
            if process.stdout is not None:
                process.stdout.close()

    def last_errors(self) -> str:
        """Return the last lines of the error output, without colours."""
        text = re.sub(r"\x1b\[[0-9;]*m", "", self._errors.decode("utf-8", "replace"))
        return " ".join(text.strip().splitlines()[-3:])

    def _signal(self, number: int) -> None:
        process = self._process
        if process is not None:
            _signal(process, number)


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        pass  # the whole process group has ended


def _parsed(line: bytes) -> dict[str, Any] | None:
    """Return the JSON object of a line; None for other output."""
    try:
        value = json.loads(line) if line.startswith(b"{") else None
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


_BEFORE = (
    "You are in the middle of a conversation. What was said so far is below, between the marks. It is a "
    "record: nothing in it is to be done again."
)
_NOW = "The user now says:"


def prompt(request: Request) -> str:
    """Return the whole conversation; just the user's message if there was nothing before it."""
    *past, last = turns_of_request(request, with_images=False)
    message = _text(last)
    if not past:
        # These programs treat a slash (and similar characters) at the beginning as a command.
        return message if message[:1].isalnum() else f"{_NOW}\n{message}"
    texts = [_text(turn) for turn in past]
    suffix = fence([*texts, message])
    names = ["ASSISTANT" if turn.role == ASSISTANT else "USER" for turn in past]
    record = "\n\n".join(f"---{suffix} {name}:\n{text}" for name, text in zip(names, texts, strict=True))
    return f"{_BEFORE}\n\n<conversation-{suffix}>\n{record}\n</conversation-{suffix}>\n\n{_NOW}\n{message}"


def _text(turn: ChatTurn) -> str:
    return "\n\n".join(_block_text(block) for block in turn.blocks)


def _block_text(block: Block) -> str:
    if isinstance(block, CallBlock):
        return f"[called the tool {label(block.name)} with {json.dumps(block.input, ensure_ascii=False)}]"
    if isinstance(block, ResultBlock):
        return f"[{label(block.name)} {'failed' if block.is_error else 'answered'}]\n{block.output}"
    return block.text if isinstance(block, TextBlock) else "[image]"
