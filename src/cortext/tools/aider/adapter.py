"""Aider: its chat histories, and histories of our own that it continues."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cortext.io.new_files import Later
from cortext.tools.aider.store import TOOL, AiderStore
from cortext.tools.base import Launch, Leftover, Messages, Transcript, Watch, Withheld, Written
from cortext.tools.shared.local import LocalTool

if TYPE_CHECKING:
    from cortext.tools.aider.read import AiderReading

# Above this size Aider would replace the restored messages by a summary. Its default is 1,024 to 8,192.
_HISTORY_TOKENS = "1000000"


class Aider(LocalTool):
    """The adapter for Aider, which has neither tool calls nor hooks.

    It cannot be started with a first prompt and stay open (`--message` answers and exits), so the context of a resumed
    conversation is the last message of the history, and the user speaks first.
    """

    name = TOOL
    title = "Aider"
    tested_version = "0.86.2"
    command = "aider"
    distribution = "aider-chat"
    prompt_is_public = True
    user_speaks_first = True
    install_command = "pipx install aider-chat"

    def __init__(self, home: str | None = None, environ: Mapping[str, str] | None = None) -> None:
        super().__init__(home, environ)
        self._store = AiderStore(self.home, self.own_environ)

    # ── transcripts ──────────────────────────────────────────────────────────────────────────────────

    def transcripts(self, project: str | None = None) -> Iterator[Transcript]:
        """Yield the conversations of one project, or of the projects that can be known (see `store`)."""
        return self._store.transcripts(project)

    def transcript_at(self, path: str) -> Transcript | None:
        """Return the conversation in this file; None if it is not a chat history with only one."""
        return self._store.transcript_at(path)

    def transcripts_in(self, path: str) -> Iterator[Transcript]:
        """Yield the conversations in this file."""
        return iter(self._store.transcripts_in(path))

    def leftovers(self, listed: Sequence[Transcript]) -> Iterator[Leftover]:
        """Yield the histories in which nothing is recognised; one in which the user said nothing is not among them."""
        return self._store.leftovers(listed)

    def watched(self) -> Watch:
        """Return our own histories, and Aider's in the projects that can be known."""
        return Watch(folders=[self._store.folder], files=self._store.histories())

    def changed(self, path: str) -> list[Transcript]:
        """Return the conversations in this file, without those that continue in a history of our own."""
        in_own_folder = os.path.dirname(os.path.abspath(path)) == self._store.folder
        if not in_own_folder and path not in self._store.histories():
            return []
        return [found for found in self.transcripts() if found.path == path]

    def read(self, transcript: Transcript, cursor: dict[str, Any] | None = None) -> AiderReading:
        """Return a reading of the messages; always of all."""
        from cortext.tools.aider.read import AiderReading

        return AiderReading(self._store, transcript)

    def copy(self, transcript: Transcript, target: str, later: Later | None = None) -> None:
        """Copy the conversation's part of the file unchanged."""
        from cortext.io import durable, new_files
        from cortext.tools.aider.write import contents

        section = self._store.section(transcript)
        if section is None:
            raise FileNotFoundError(transcript.path)
        if later is not None:
            new_files.new_file(target, [contents(section)], later)
        else:
            durable.replace_file(target, [contents(section)])

    def put_back(self, copy: str, *, project: str) -> str:
        """Restore a kept copy if the conversation was lost; return its key."""
        from cortext.tools.aider.write import put_back

        return put_back(self._store, copy, project)

    def withheld(self, transcript: Transcript) -> Withheld:
        """Count the lines of answers that Aider leaves out because of how they begin."""
        from cortext.model.turns import Change
        from cortext.tools.aider.history import blocks

        section = self._store.section(transcript)
        lines = sum(block.left_out for block in blocks(section.text)) if section is not None else 0
        return Withheld(changed={Change.LINE_LEFT_OUT: lines} if lines else {})

    # ── native sessions ──────────────────────────────────────────────────────────────────────────────

    def preview(self, messages: Messages) -> Written:
        """Return what `write` would report for these messages; nothing is written."""
        from cortext.tools.aider.write import Rendering

        return Written.of(Rendering(messages).normal)

    def write(
        self, messages: Messages, *, project: str, title: str = "", key: str = "", model: str = "", note: str = ""
    ) -> Written:
        """Write a history of our own with these messages as turns that Aider restores."""
        from cortext.tools.aider.write import write_session

        return write_session(self._store, messages, project, title, key, note)

    def launch(self, written_or_key: str, *, project: str, prompt: str = "", model: str = "") -> Launch:
        """Return how to open that conversation interactively. The prompt is not sent, because Aider takes none."""
        from cortext.tools.aider.write import adopt

        history = ["--chat-history-file", adopt(self._store, written_or_key, project), "--restore-chat-history"]
        options = ["--max-chat-history-tokens", _HISTORY_TOKENS, *(["--model", model] if model else [])]
        program = self.program.path() or self.program.command
        return Launch(argv=[program, *history, *options], cwd=project)

    def launch_new(self, *, project: str, prompt: str, title: str = "", model: str = "") -> tuple[Written, Launch]:
        """Write a history that contains the prompt; return it and how to open it."""
        written = self.write([], project=project, title=title, note=prompt)
        return written, self.launch(written.key, project=project, model=model)

    def discard(self, written: Written, *, project: str) -> None:
        """Remove a history that was never used."""
        if written.path:
            from cortext.tools.aider.write import discard

            discard(self._store, written.key)
