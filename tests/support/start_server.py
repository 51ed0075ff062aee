"""Starts our commands as processes that have imported Python's and our modules already.

A test run starts `cortext` thousands of times, and most of that time is spent on importing the same modules. Here one
process imports them once and is forked for every command, which then takes 20 milliseconds instead of 100. The command
is a process of its own, with its own arguments, environment, folder, umask, pipes and exit code. Tests of starting
itself, of locales and of Python's own settings run the installed script.

As a program it is that server: requests arrive on the socket that is its standard input, each with its length and the
ends of four pipes before it: input, output, errors, and how the command ended.
"""

from __future__ import annotations

import importlib
import json
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NoReturn

# What nearly every command needs. The module of the command itself is imported by the command.
PRELOADED = (
    "cortext.agents.alfred.main",
    "cortext.agents.aur.main",
    "cortext.faces.cortext.commands._listing",
    "cortext.faces.cortext.commands.hook",
    "cortext.faces.cortext.commands.setup",
    "cortext.faces.cortext.commands.resume",
    "cortext.faces.cortext.commands.search",
    "cortext.faces.cortext.main",
)
LENGTH = struct.Struct("<I")


class StartServer:
    """The server as a child of the test process; it ends with it."""

    def __init__(self, env: Mapping[str, str]) -> None:
        ours, theirs = socket.socketpair()
        self._sending = threading.Lock()
        self._socket, self._environ = ours, _read_by_python(env)
        self._process = subprocess.Popen([sys.executable, __file__], stdin=theirs.fileno(), env=env)
        theirs.close()

    def can_start(self, env: Mapping[str, str]) -> bool:
        """Whether Python would start in the same way: what it reads from the environment cannot be changed later."""
        return _read_by_python(env) == self._environ

    def run(
        self, words: Sequence[str], *, cwd: str, env: Mapping[str, str], stdin: bytes, patience: float
    ) -> tuple[int, bytes, bytes]:
        """Run a command to its end; return exit code, output and errors."""
        request = json.dumps({"words": list(words), "cwd": cwd, "env": dict(env), "umask": _umask()}).encode()
        to_child, outputs = os.pipe(), [os.pipe() for _ in range(3)]
        with self._sending:
            pipes = [to_child[0], *(write for _, write in outputs)]
            socket.send_fds(self._socket, [LENGTH.pack(len(request))], pipes)
            self._socket.sendall(request)
        for pipe in pipes:
            os.close(pipe)
        feeder = threading.Thread(target=_feed, args=(to_child[1], stdin), daemon=True)
        feeder.start()
        out, err, status = _collected([read for read, _ in outputs], words, patience)
        feeder.join()
        return int(status.split()[1]), out, err

    def stop(self) -> None:
        """End the server."""
        self._socket.close()
        self._process.wait()


def _read_by_python(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(("PYTHON", "LC_", "LANG"))}


def _umask() -> int:
    current = os.umask(0o077)
    os.umask(current)
    return current


def _feed(pipe: int, data: bytes) -> None:
    try:
        with open(pipe, "wb") as file:
            file.write(data)
    except BrokenPipeError:
        pass  # the command does not read its input


def _collected(pipes: Sequence[int], words: Sequence[str], patience: float) -> list[bytes]:
    """Read all pipes to their end; the last one has the process id first, then its exit code. Kill it if it is late."""
    deadline = time.monotonic() + patience
    found = {pipe: bytearray() for pipe in pipes}
    with selectors.DefaultSelector() as selector:
        for pipe in pipes:
            selector.register(pipe, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(deadline - time.monotonic(), 0))
            if not ready:
                os.kill(int(found[pipes[-1]].split()[0]), signal.SIGKILL)
                for pipe in pipes:
                    os.close(pipe)
                raise subprocess.TimeoutExpired(list(words), patience, bytes(found[pipes[0]]), bytes(found[pipes[1]]))
            for key, _ in ready:
                data = os.read(key.fd, 1 << 16)
                found[key.fd] += data
                if not data:
                    selector.unregister(key.fd)
                    os.close(key.fd)
    return [bytes(found[pipe]) for pipe in pipes]


def serve(requests: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Fork for every request. Return only in the process that has to become the command, with the request."""
    while True:
        length, pipes, _, _ = socket.recv_fds(requests, LENGTH.size, 4)
        if not length:
            os._exit(0)  # the tests have ended
        [size] = LENGTH.unpack(length)
        data = requests.recv(size, socket.MSG_WAITALL)
        while _has_ended_child():
            pass
        if os.fork() == 0:
            requests.close()
            child = os.fork()
            if child == 0:
                return json.loads(data), pipes
            _report(child, pipes)
        for pipe in pipes:
            os.close(pipe)


def _has_ended_child() -> bool:
    try:
        return os.waitpid(-1, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return False


def _report(child: int, pipes: Sequence[int]) -> NoReturn:
    """Say which process the command is, and how it ended."""
    *others, status = pipes
    for pipe in others:
        os.close(pipe)
    os.write(status, b"%d " % child)
    _, ended = os.waitpid(child, 0)
    with suppress(BrokenPipeError):  # it took too long, and nobody waits any more
        os.write(status, b"%d" % os.waitstatus_to_exitcode(ended))
    os._exit(0)


def become(request: Mapping[str, Any], pipes: Sequence[int]) -> Callable[[], int]:
    """Take over folder, environment and pipes; return what the installed script would call."""
    *streams, status = pipes
    for number, pipe in enumerate(streams):
        os.dup2(pipe, number)
        os.close(pipe)
    os.close(status)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        old = getattr(sys, name)
        new = open(number, "w" if number else "r", encoding=old.encoding, errors=old.errors, closefd=False)  # noqa: SIM115
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)
    sys.stderr.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    os.umask(request["umask"])
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    sys.argv = request["words"]
    program = os.path.basename(sys.argv[0])
    room = "faces" if program == "cortext" else "agents"
    main: Callable[[], int] = importlib.import_module(f"cortext.{room}.{program}.main").main
    return main


if __name__ == "__main__":
    for name in PRELOADED:
        importlib.import_module(name)
    with socket.socket(fileno=os.dup(0)) as requests:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.path.pop(0)  # this folder
        main_of_command = become(*serve(requests))
    sys.exit(main_of_command())
