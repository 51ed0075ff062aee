"""Kimi Code: its transcripts and its native sessions."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from cortext.io.batch import Later
from cortext.tools.base import Detected, Launch, Messages, Transcript, Withheld, Written
from cortext.tools.kimi_code.store import TOOL, KimiStore, agents_of, copy, state_of, transcript_at
from cortext.tools.shared.program import Program

if TYPE_CHECKING:
    from cortext.tools.kimi_code.read import KimiReading


class KimiCode:
    """The adapter for Kimi Code."""

    name = TOOL
    title = "Kimi Code"
    tested_version = "2.1.0"
    # Its screen takes no first prompt at all, so what the model should know is written into the session as its last
    # message, as for tools whose prompt is public. The user's next message is sent with it.
    prompt_is_public = True
    install_command = "npm install -g @moonshot-ai/kimi-code"

    def __init__(self, home: str | None = None, environ: Mapping[str, str] | None = None) -> None:
        self._environ = os.environ if environ is None else environ
        own = self._environ.get("HOME") or os.path.expanduser("~")
        folder = self._environ.get("KIMI_CODE_HOME") if home in (None, own) else None
        self._store = KimiStore(folder or os.path.join(home or own, ".kimi-code"))
        self._program = Program("kimi", self._environ, package="@moonshot-ai/kimi-code")

    def detect(self) -> Detected | None:
        """Return the installed program and its version; None if it is not installed."""
        return self._program.detect(self.tested_version)

    # ── transcripts ──────────────────────────────────────────────────────────────────────────────────

    def transcripts(self, project: str | None = None) -> Iterator[Transcript]:
        """Yield its transcripts on this machine (of one project, if given), in no particular order."""
        return self._store.transcripts(project)

    def transcript_at(self, path: str) -> Transcript | None:
        """Return the transcript in this file; None if it is not a session of Kimi Code."""
        return transcript_at(path)

    def read(self, transcript: Transcript, cursor: dict[str, Any] | None = None) -> KimiReading:
        """Return a reading of the messages; with a cursor, only of those added since."""
        from cortext.tools.kimi_code.read import KimiReading

        return KimiReading(transcript, cursor, state_of(transcript.path), agents_of(transcript.path))

    def copy(self, transcript: Transcript, target: str, later: Later | None = None) -> None:
        """Copy the log unchanged, and beside it the logs of the subagents and the session's state."""
        copy(transcript.path, target, later)

    def put_back(self, copy: str, *, project: str) -> str:
        """Restore a kept copy to the tool's store if the session is missing there; return the session's key."""
        from cortext.tools.kimi_code.write import put_back

        return put_back(self._store, copy, project)

    def withheld(self, transcript: Transcript) -> Withheld | None:
        """Return an empty report, because Kimi Code sends everything; None if the session was compacted."""
        reading = self.read(transcript)
        for _ in reading:
            pass
        return None if reading.about.summary else Withheld()

    # ── native sessions ──────────────────────────────────────────────────────────────────────────────

    def preview(self, messages: Messages) -> Written:
        """Return what `write` would report for these messages; nothing is written."""
        from cortext.tools.kimi_code.render import Rendering

        return Written.of(Rendering(messages, 0).normal)

    def write(
        self, messages: Messages, *, project: str, title: str = "", key: str = "", model: str = "", note: str = ""
    ) -> Written:
        """Write a new native session of this project with these messages as real turns."""
        from cortext.tools.kimi_code.write import write_session

        return write_session(self._store, messages, project, title, key, note)

    def launch(self, written_or_key: str, *, project: str, prompt: str = "", model: str = "") -> Launch:
        """Return how to open that session interactively. A prompt is not sent: see `prompt_is_public`."""
        program = self._program.path() or self._program.command
        return Launch(argv=[program, "-S", written_or_key, *(["-m", model] if model else [])], cwd=project)

    def launch_new(self, *, project: str, prompt: str, title: str = "", model: str = "") -> tuple[Written, Launch]:
        """Write a new session that contains the prompt; return it and how to open it."""
        written = self.write([], project=project, title=title, note=prompt)
        return written, self.launch(written.key, project=project, model=model)

    def discard(self, written: Written, *, project: str) -> None:
        """Remove a session that was never used."""
        from cortext.tools.kimi_code.write import discard

        discard(written)
