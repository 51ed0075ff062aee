"""Continue: its transcripts and its native sessions.

The command-line program has no hooks that run (1.5.47 knows the names of Claude Code's, but calls none) and reads no
settings of a project, so there is nothing to install.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cortext.io.new_files import Later, mirror_file
from cortext.model.turns import Change
from cortext.tools.base import Counts, Launch, Leftover, Messages, Transcript, Watch, Withheld, Written
from cortext.tools.continue_cli.records import head_of, items_of, session_files
from cortext.tools.shared.folders import changed_below
from cortext.tools.shared.leftovers import unlisted_below
from cortext.tools.shared.local import LocalTool

if TYPE_CHECKING:
    from cortext.tools.continue_cli.read import ContinueReading


class Continue(LocalTool):
    """The adapter for Continue."""

    name = "continue"
    title = "Continue"
    tested_version = "1.5.47"
    command = "cn"
    package = "@continuedev/cli"
    folder_variables = ("CONTINUE_GLOBAL_DIR",)
    # With a first prompt, `cn --resume` sends only that, and overwrites the session's file with what follows.
    prompt_is_public = True
    user_speaks_first = True
    install_command = "npm install -g @continuedev/cli"

    def __init__(self, home: str | None = None, environ: Mapping[str, str] | None = None) -> None:
        super().__init__(home, environ)
        base = self.own_environ.get("CONTINUE_GLOBAL_DIR") or os.path.join(self.home, ".continue")
        self._folder = os.path.join(base, "sessions")

    # ── transcripts ──────────────────────────────────────────────────────────────────────────────────

    def transcripts(self, project: str | None = None) -> Iterator[Transcript]:
        """Yield its transcripts on this machine (of one project, if given), in no particular order."""
        wanted = None if project is None else os.path.realpath(project)
        for path in session_files(self._folder):
            found = self.transcript_at(path)
            if found is not None and (wanted is None or os.path.realpath(found.project) == wanted):
                yield found

    def transcript_at(self, path: str) -> Transcript | None:
        """Return the transcript in this file; None if it is not a session of Continue."""
        head = head_of(path)
        if head is None:
            return None
        status = os.stat(path)
        return Transcript(
            tool=self.name,
            key=head.key,
            path=path,
            project=head.project,
            size=status.st_size,
            changed=status.st_mtime_ns,
        )

    def leftovers(self, listed: Sequence[Transcript]) -> Iterator[Leftover]:
        """Yield the other files among the sessions, without the list of them."""
        return unlisted_below(self._folder, listed, self.title, ("sessions.json",))

    def watched(self) -> Watch:
        """Return the folder of all sessions."""
        return Watch(folders=[self._folder])

    def changed(self, path: str) -> list[Transcript]:
        """Return the session in this file."""
        return changed_below(self, self._folder, path)

    def read(self, transcript: Transcript, cursor: dict[str, Any] | None = None) -> ContinueReading:
        """Return a reading of the messages; with a cursor, only of those added since."""
        from cortext.tools.continue_cli.read import ContinueReading

        return ContinueReading(transcript, cursor)

    def copy(self, transcript: Transcript, target: str, later: Later | None = None) -> None:
        """Copy the document unchanged."""
        mirror_file(transcript.path, target, later)

    def put_back(self, copy: str, *, project: str) -> str:
        """Restore a kept copy to the tool's store if the session is missing there; return the session's key."""
        from cortext.tools.continue_cli.write import put_back

        return put_back(self._folder, copy)

    def withheld(self, transcript: Transcript) -> Withheld | None:
        """Count the calls without a result, which Continue reports as cancelled; None if the session was compacted."""
        items = list(items_of(transcript.path, Counts()))
        if any(item.summary is not None for item in items):
            return None
        missing = sum(not state.output for item in items for state in item.states or ())
        return Withheld(changed={Change.RESULT_ADDED: missing} if missing else {})

    # ── native sessions ──────────────────────────────────────────────────────────────────────────────

    def preview(self, messages: Messages) -> Written:
        """Return what `write` would report for these messages; nothing is written."""
        from cortext.tools.continue_cli.render import Rendering

        return Written.of(Rendering(messages).normal)

    def write(
        self, messages: Messages, *, project: str, title: str = "", key: str = "", model: str = "", note: str = ""
    ) -> Written:
        """Write a new native session of this project with these messages as real turns."""
        from cortext.tools.continue_cli.write import write_session

        return write_session(self._folder, messages, project, title, key, note)

    def launch(self, written_or_key: str, *, project: str, prompt: str = "", model: str = "") -> Launch:
        """Return how to open that session interactively. A prompt is not sent: see `user_speaks_first`."""
        from cortext.tools.continue_cli.write import open_next

        open_next(self._folder, written_or_key)
        # A model is named by its address on Continue's hub; the others are chosen in the user's config.
        options = ["--model", model] if "/" in model else []
        program = self.program.path() or self.program.command
        return Launch(argv=[program, "--resume", *options], cwd=project)

    def launch_new(self, *, project: str, prompt: str, title: str = "", model: str = "") -> tuple[Written, Launch]:
        """Write a new session that contains the prompt; return it and how to open it."""
        written = self.write([], project=project, title=title, note=prompt)
        return written, self.launch(written.key, project=project, model=model)

    def discard(self, written: Written, *, project: str) -> None:
        """Remove a session that was never used."""
        from cortext.tools.continue_cli.write import discard

        discard(self._folder, written)
