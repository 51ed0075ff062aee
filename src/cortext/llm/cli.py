"""An AI program that is installed here, as a model: `cli/claude`, say. Its adapter says how it is asked and read.

It is started for every answer, gets the conversation as data, and is read line by line. Our own tools cannot be
handed to it. It asks again by itself where its API is busy, so we do not.
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

from cortext.errors import NoModel, UsageError
from cortext.io import files as fsio
from cortext.llm import cli_prompt
from cortext.llm.base import Done, Event, Note, Request
from cortext.llm.connection import Gathered, Limits
from cortext.llm.faults import Failed, Fault
from cortext.llm.provider import Asking
from cortext.model.headless import Failure, Headless, Question, Run
from cortext.model.turns import whole_characters
from cortext.safety.environment import for_child

_PATIENCE = 5  # times the silence that an API is allowed: some of these programs speak only at the end
_LONGEST_LINE = 64 << 20
_FAREWELL = 0.5  # seconds that a program has to end by itself once it gave its answer
_TICK = 0.2


class CliModel:
    """A program, and perhaps the model that it is to use."""

    takes_tools = False

    def __init__(
        self,
        program: Headless,
        model: str,
        limits: Limits,
        *,
        folder: str,
        scratch: str,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        if "\0" in model:
            raise UsageError("the name of the model has a zero byte in it", kept="nothing was sent")
        self.name = f"cli/{program.name}/{model}" if model else f"cli/{program.name}"
        self.context = program.headless_context
        self._program, self._model, self._path = program, model, program.program_path()
        self._limits, self._folder, self._environ = limits, folder, environ
        self._scratch = os.path.join(scratch, program.name)
        if not self._path:
            raise NoModel(
                f"{program.title} is not installed here",
                kept="nothing was sent",
                hint=f"{program.install_command}, or name another --model",
            )
        hint = f"start `{os.path.basename(self._path)}` once by hand and sign in"
        self._fault = Fault(self.name, key_hint=hint)
        self._under_way: Gathered[_Run] = Gathered()

    def stream(self, request: Request) -> Iterator[Event]:
        """Ask. Known from this moment, so that a `cancel` before the first event counts."""
        run = _Run()
        self._under_way.add(run)
        return self._answer(request, run)

    def cancel(self) -> None:
        """Stop what is under way: the program and all that it started."""
        for run in self._under_way.all():
            run.stop()

    def warm(self) -> None:
        """There is nothing to load: the program is started for each answer."""

    def _answer(self, request: Request, run: _Run) -> Iterator[Event]:
        said = False
        start = self._start(request)
        try:
            for line in run.lines(self._path, start, self._folder, self._environ, self._limits.silence * _PATIENCE):
                for event in start.read(line):
                    if isinstance(event, Failure):
                        raise self._failed(event)
                    if isinstance(event, Note):
                        event = Note(self._fault.words(event.text))
                    else:
                        said = True
                    yield event
                    if isinstance(event, Done):
                        return
            raise self._silent(run)
        except Failed as failed:
            if run.stopped.is_set():
                raise self._fault.stopped() from None
            raise (self._fault.cut(failed) if said else failed.error) from None
        except OSError as error:
            raise self._fault.program(f"it could not be started: {error}").error from None
        finally:
            run.end()
            if start.clean_up is not None:
                start.clean_up()

    def _start(self, request: Request) -> Run:
        fsio.ensure_folder(self._scratch)
        return self._program.ask(
            Question(
                name=self.name,
                system=whole_characters(request.system).replace("\0", ""),
                prompt=cli_prompt.prompt(request).replace("\0", ""),
                model=self._model,
                folder=self._folder,
                scratch=self._scratch,
                environ=self._environ,
            )
        )

    def _failed(self, failure: Failure) -> Failed:
        if failure.broke_off:
            return self._fault.unfinished()
        return self._fault.program(failure.text, failure.status)

    def _silent(self, run: _Run) -> Failed:
        """Why there was no end: we stopped it, it hung, or it gave up and says why."""
        if run.late:
            return self._fault.silent(self._limits.silence * _PATIENCE)
        words = run.last_words()
        return self._fault.program(words) if words else self._fault.unfinished()


class _Run(Asking):
    """One run of a program."""

    def __init__(self) -> None:
        super().__init__()
        self.late = False
        self._process: subprocess.Popen[bytes] | None = None
        self._errors = b""

    def stop(self) -> None:
        """From any thread."""
        self.stopped.set()
        self._signal(signal.SIGKILL)

    def lines(
        self, path: str, start: Run, folder: str, environ: Mapping[str, str], silence: float
    ) -> Iterator[dict[str, Any]]:
        """The JSON objects that the program says, one a line, as they come."""
        env = {name: value for name, value in for_child(environ).items() if name not in start.without}
        # Our own hooks are for the user's turns, not for this one.
        env |= {**start.env, "CORTEXT_HOOKS": "off"}
        # Files, not pipes: a long prompt would fill a pipe, and so would complaints that nobody reads.
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as errors:
            given.write(start.stdin.encode("utf-8", "replace"))
            given.seek(0)
            self._process = subprocess.Popen(
                [path, *start.arguments],
                cwd=start.folder or folder,
                env=env,
                stdin=given,
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
        poll = select.poll()  # select itself fails in a process with many files open
        poll.register(pipe)
        rest = b""
        heard = time.monotonic()
        while not self.stopped.is_set():
            if poll.poll(_TICK * 1_000):
                block = os.read(pipe, 1 << 16)
                if not block:
                    break
                heard = time.monotonic()
                *lines, rest = (rest + block).split(b"\n")
                yield from lines
                if len(rest) > _LONGEST_LINE:
                    return
            elif process.poll() is not None:
                break  # something that it left behind keeps the pipe open
            elif time.monotonic() - heard > silence:
                self.late = True
                return
        if rest:
            yield rest

    def end(self) -> None:
        """See to it that nothing of it is left."""
        process, self._process = self._process, None
        if process is None:
            return
        try:
            if not self.stopped.is_set():
                process.wait(_FAREWELL)
        except subprocess.TimeoutExpired:
            pass  # it has nothing to save: we keep the conversation
        finally:
            _signal(process, signal.SIGKILL)
            process.wait()
            if process.stdout is not None:
                process.stdout.close()

    def last_words(self) -> str:
        """The last lines of its complaints."""
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
        pass  # it ended by itself, with all that it had started


def _parsed(line: bytes) -> dict[str, Any] | None:
    """An object; None for the words that programs say in between."""
    try:
        value = json.loads(line) if line.startswith(b"{") else None
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
