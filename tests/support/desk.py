"""A machine with several AI programs and `cortext`: one HOME, one model server."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.cli import SCRIPTS, Ran, cortext
from tests.support.model_server import ModelServer, Reply
from tests.support.runners import Tool, make_tool
from tests.support.screen import Screen

# Our names of the programs, and those of their runners: the four that most tests use, and the others.
NAMES = {"claude": "claude-code", "gemini": "gemini-cli", "opencode": "opencode", "codex": "codex"}
MORE_NAMES = {
    "copilot": "copilot",
    "qwen": "qwen-code",
    "pi": "pi",
    "kimi": "kimi-code",
    "continue": "continue",
    "vibe": "mistral-vibe",
    "gptme": "gptme",
    "aider": "aider",
}


class Desk:
    """One user's machine, with the programs on PATH under their own names."""

    def __init__(self, folder: Path, server: ModelServer, names: Iterable[str] = NAMES) -> None:
        self.server = server
        self.home = folder / "home"
        self.bin = folder / "bin"
        self.bin.mkdir(parents=True)
        runners = NAMES | MORE_NAMES
        self.tools: dict[str, Tool] = {name: make_tool(runners[name], self.home, server.url) for name in names}
        self.env: dict[str, str] = {}
        for tool in self.tools.values():
            (self.bin / Path(tool.program).name).symlink_to(tool.program)
            self.env |= tool.env
        self.env["PATH"] = os.pathsep.join([str(self.bin), str(SCRIPTS), os.environ["PATH"]])
        for who in ("AUTHOR", "COMMITTER"):
            self.env |= {f"GIT_{who}_NAME": "Test", f"GIT_{who}_EMAIL": "test@localhost"}
        for tool in self.tools.values():
            tool.env = {**self.env, **tool.env, "PATH": self.env["PATH"]}

    def project(self, name: str = "project") -> Path:
        """Create a folder that every program trusts."""
        folder = self.home.parent / name
        folder.mkdir()
        for tool in self.tools.values():
            tool.trust(folder)
        return folder

    @contextmanager
    def environment(self) -> Iterator[None]:
        """Use this machine's environment in this process, as `cortext` would have it there."""
        before = dict(os.environ)
        os.environ.update(self.env)
        tempfile.tempdir = None  # Python remembers the folder of the machine before
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)
            tempfile.tempdir = None

    def cortext(self, *words: str, cwd: Path, stdin: str = "") -> Ran:
        """Run `cortext` on this machine."""
        return cortext(*words, cwd=cwd, stdin=stdin, env=self.env)

    def use(self, name: str, project: Path) -> str:
        """Hold a short conversation in the program, so that the home is not fresh; return that session's id."""
        tool = self.tools[name]
        self.server.push("The kettle is on.")
        self._turn(tool, "Please put the kettle on.", project, None)
        return tool.sessions()[-1]

    def say(self, screen: Screen, words: str) -> None:
        """Type words into a program's screen and send them; return when the model has received them."""
        screen.type(words)
        screen.wait_for(words)
        before = len(self.server.requests)
        deadline = time.monotonic() + 120
        while True:  # a program may take fast keys for a paste and Enter for a new line: press it again
            screen.press("Enter")
            try:
                self.server.wait_for(lambda turn: turn.number > before and words in str(turn.body), 2)
                return
            except TimeoutError:
                assert time.monotonic() < deadline, screen.text()

    def talk(self, name: str, project: Path) -> list[str]:
        """Hold a conversation with a tool call in the real program; return the texts in order."""
        tool = self.tools[name]
        (project / "note.txt").write_text("the heron stands still\n", encoding="utf-8")
        said = [
            f"First words to {name}: remember the number 4711. 覚えて 🦩",
            "Gern gemerkt: 4711. 🦩",
            f"Read note.txt for me, {name}.",
            "Let me look.",
            "The note says: the heron stands still.",
        ]
        self.server.push(said[1])
        self._turn(tool, said[0], project, None)
        call = tool.shell("cat note.txt")
        self.server.push(Reply(text=said[3], tool_calls=call.tool_calls), said[4])
        self._turn(tool, said[2], project, tool.sessions()[-1])
        return said

    def _turn(self, tool: Tool, prompt: str, project: Path, resume: str | None) -> None:
        done = tool.run(prompt, cwd=project, resume=resume)
        assert done.returncode == 0, f"{tool.name}: {done.stderr[-2000:]}"
