"""An AI program that is installed here, as a model: `cli/claude`, `cli/gemini`, `cli/opencode`, `cli/codex`.

It is started for every answer, gets the conversation as data, and is read line by line. Our own tools cannot be
handed to it. It asks again by itself where its API is busy, so we do not.
"""

from __future__ import annotations

import glob
import json
import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from cortext.errors import CortextError, NoModel, UsageError
from cortext.io import files as fsio
from cortext.llm import cli_programs, cli_prompt
from cortext.llm.base import Event, Note, Request
from cortext.llm.cli_programs import Reader, Start
from cortext.llm.connection import Gathered, Limits
from cortext.llm.faults import Failed, Fault
from cortext.llm.provider import Asking
from cortext.model.turns import whole_characters
from cortext.safety.environment import for_child

LIBRARY = ""  # none is needed
NEEDS = "install one of them (Claude Code, Gemini CLI, OpenCode, Codex) and sign in"

_PATIENCE = 5  # times the silence that an API is allowed: some of these programs speak only at the end
_LONGEST_LINE = 64 << 20
_FAREWELL = 0.5  # seconds that a program has to end by itself once it gave its answer
_TICK = 0.2


class Program(msgspec.Struct, frozen=True):
    """One of the programs: what it is called, how it is started and read, and what fits into it."""

    title: str
    command: str
    package: str
    start: Callable[[str, str, str, str, str, Mapping[str, str]], Start]
    reader: type[Reader]
    context: int


# In the order in which they are tried.
PROGRAMS = {
    "claude": Program(
        "Claude Code",
        "claude",
        "@anthropic-ai/claude-code",
        cli_programs.start_claude,
        cli_programs.ClaudeReader,
        200_000,
    ),
    "gemini": Program(
        "Gemini CLI",
        "gemini",
        "@google/gemini-cli",
        cli_programs.start_gemini,
        cli_programs.GeminiReader,
        1_048_576,
    ),
    "opencode": Program(
        "OpenCode", "opencode", "opencode-ai", cli_programs.start_opencode, cli_programs.OpenCodeReader, 128_000
    ),
    "codex": Program("Codex", "codex", "@openai/codex", cli_programs.start_codex, cli_programs.CodexReader, 272_000),
}


def path_of(name: str, environ: Mapping[str, str] = os.environ) -> str:
    """Where the program is; empty where it is not installed."""
    command = PROGRAMS[name].command
    own = os.path.join(environ.get("HOME", ""), f".{command}", "bin", command)
    return shutil.which(command, path=environ.get("PATH", os.defpath)) or (own if os.access(own, os.X_OK) else "")


def here(environ: Mapping[str, str] = os.environ) -> str:
    """The first program that is installed; empty where there is none."""
    return next((name for name in PROGRAMS if path_of(name, environ)), "")


class CliModel:
    """A program, and perhaps the model that it is to use: `claude`, `claude/opus`."""

    takes_tools = False

    def __init__(
        self, model: str, limits: Limits, *, folder: str, scratch: str, environ: Mapping[str, str] = os.environ
    ) -> None:
        program, _, self._model = model.partition("/")
        if program not in PROGRAMS or "\0" in model:
            raise UsageError(f"unknown program cli/{program}", hint=f"one of {', '.join(PROGRAMS)}")
        self.name = f"cli/{model}"
        self._program = PROGRAMS[program]
        self.context = self._program.context
        self._path = path_of(program, environ)
        self._limits, self._folder, self._environ = limits, folder, environ
        self._scratch = os.path.join(scratch, program)
        hint = f"start `{self._program.command}` once by hand and sign in"
        self._fault = Fault(self.name, key_hint=hint)
        self._under_way: Gathered[_Run] = Gathered()
        if not self._path:
            raise NoModel(
                f"{self._program.title} is not installed here",
                kept="nothing was sent",
                hint=f"npm install -g {self._program.package}, or name another --model",
            )

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
        reader = self._program.reader(self._fault)
        try:
            for line in run.lines(self._path, start, self._folder, self._environ, self._limits.silence * _PATIENCE):
                for event in reader.events(line):
                    said = said or not isinstance(event, Note)
                    yield event
                if reader.done is not None:
                    yield reader.done
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
            _forget(start, self._environ)

    def _start(self, request: Request) -> Start:
        fsio.ensure_folder(self._scratch)
        prompt = cli_prompt.prompt(request).replace("\0", "")
        system = whole_characters(request.system).replace("\0", "")
        return self._program.start(system, prompt, self._model, self._scratch, self._folder, self._environ)

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
        self, path: str, start: Start, folder: str, environ: Mapping[str, str], silence: float
    ) -> Iterator[dict[str, Any]]:
        """The JSON objects that the program says, one a line, as they come."""
        env = {name: value for name, value in for_child(environ).items() if name not in start.without}
        # Our own hooks are for the user's turns, not for this one.
        env |= {**start.env, "CORTEXT_HOOKS": "off"}
        # Files, not pipes: a long prompt would fill a pipe, and so would complaints that nobody reads.
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as errors:
            given.write(start.given.encode("utf-8", "replace"))
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


def _forget(start: Start, environ: Mapping[str, str]) -> None:
    """Gemini CLI cannot be told to keep nothing: take out the file that it wrote for this turn."""
    if "--session-id" not in start.arguments:
        return

    key = start.arguments[start.arguments.index("--session-id") + 1]
    home = environ.get("GEMINI_CLI_HOME") or environ.get("HOME", "")
    pattern = os.path.join(glob.escape(home), ".gemini", "tmp", "*", "chats", f"session-*-{key[:8]}.jsonl")
    for path in glob.glob(pattern):
        try:
            with open(path, encoding="utf-8", errors="replace", opener=fsio.plain_file) as file:
                ours = key in file.readline(1 << 16)
            if ours:
                fsio.remove(path)
        except (OSError, CortextError):
            pass  # an answer is worth more than tidiness
