"""`cortext web` as a process, and a client that sends exactly the headers it is told to."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

from tests.faces.pond import Pond
from tests.support.cli import SCRIPTS
from tests.support.waiting import wait_until


class Reply(NamedTuple):
    """What the server answered."""

    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def words(self) -> str:
        """The text without tags."""
        return " ".join(unescape(re.sub(r"<[^>]+>", " ", self.text)).split())


class Served:
    """A running server. `open` exchanges the token for the cookie, as a browser does."""

    def __init__(self, address: str, process: int) -> None:
        parts = urlsplit(address)
        self.address, self.process = address, process
        self.host = parts.netloc
        self.target = f"{parts.path}?{parts.query}"
        self.cookie = ""

    def send(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """Send one request, with the cookie if there is one."""
        connection = http.client.HTTPConnection(self.host, timeout=30)
        sent = {"Cookie": self.cookie} if self.cookie else {}
        try:
            connection.request(method, path, body, {**sent, **(headers or {})})
            answer = connection.getresponse()
            return Reply(answer.status, {name.lower(): value for name, value in answer.getheaders()},
                         answer.read().decode("utf-8", "replace"))  # fmt: skip
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Reply:
        """Read a page."""
        return self.send("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})

    def activity(self, path: str = "/see") -> Reply:
        """Read the activity page when every conversation has been read for it."""

        def complete() -> Reply | None:
            reply = self.get(path)
            return None if re.search(r"<\w+[^>]* data-(again|old)\b", reply.text) else reply

        reply = wait_until(complete, why=lambda: self.get(path).words)
        assert reply is not None
        return reply

    def until(self, path: str, holds: Callable[[Reply], bool]) -> Reply:
        """Read a page until something holds: a request may be answered from the list of half a second ago."""

        def holding() -> Reply | None:
            reply = self.activity(path)
            return reply if holds(reply) else None

        reply = wait_until(holding, why=lambda: self.activity(path).words)
        assert reply is not None
        return reply

    def open(self) -> Reply:
        """Use the token."""
        reply = self.get(self.target)
        self.cookie = reply.headers.get("set-cookie", "").partition(";")[0]
        return reply

    @property
    def csrf(self) -> str:
        """The secret that the page's forms contain."""
        found = re.search(r'name="csrf" content="([0-9a-f]+)"', self.get("/").text)
        assert found
        return found[1]

    def post(self, path: str, fields: Mapping[str, str] | None = None, **headers: str) -> Reply:
        """Send a form with the page's secret."""
        body = urlencode({"csrf": self.csrf, **(fields or {})}).encode()
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        return self.send("POST", path, body, {**kind, **{name.replace("_", "-"): v for name, v in headers.items()}})

    def link(self, title: str) -> str:
        """Return the address of the conversation with this title, from the list."""
        found = re.search(rf'<a href="(/c/[^"]+)">{re.escape(title)}</a>', self.get("/").text)
        assert found, title
        return unescape(found[1]).partition("?")[0]


CLAUDE = "echo '2.1.0 (Claude Code)'"  # an installed tool: only its version is asked for


def with_program(pond: Pond, name: str, script: str) -> dict[str, str]:
    """Install a program that runs a script of the shell; return an environment in which it is found."""
    program = pond.home / "programs" / name
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)
    return {**pond.env, "PATH": f"{program.parent}:{pond.env['PATH']}"}


@contextmanager
def serving(env: Mapping[str, str], cwd: Path, *words: str) -> Iterator[Served]:
    """Run the server until the block ends, and check that it ends at once and silently."""
    command = [str(SCRIPTS / "cortext"), "web", "--no-open", "--json", *words]
    process = subprocess.Popen(
        command, env=dict(env), cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8"
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        started = json.loads(line)
        yield Served(started["address"], started["process"])
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
        assert (process.returncode, errors) == (0, ""), errors
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
