"""gptme: its transcripts and its native sessions."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cortext.io.new_files import Later
from cortext.safety.framing import GO_ON
from cortext.tools.base import Launch, Leftover, Messages, Transcript, Watch, Withheld, Written
from cortext.tools.gptme.store import COMPANIONS, TOOL, GptmeStore, folder_of, is_compacted, settings_of
from cortext.tools.shared.folders import changed_below
from cortext.tools.shared.leftovers import unlisted_below
from cortext.tools.shared.local import LocalTool
from cortext.tools.shared.program import check_argument

if TYPE_CHECKING:
    from cortext.tools.gptme.read import GptmeReading


# What gptme needs for a provider, by the beginning of a model's name; others are not known.
_NEEDED = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
    "requesty": ("REQUESTY_API_KEY",),
    "gemini": ("GEMINI_API_KEY",),
    "groq": ("GROQ_API_KEY",),
    "xai": ("XAI_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "moonshot": ("MOONSHOT_API_KEY",),
    "nvidia": ("NVIDIA_API_KEY",),
    "azure": ("AZURE_OPENAI_API_KEY",),
    "local": ("OPENAI_BASE_URL", "OPENAI_API_BASE"),
}


class Gptme(LocalTool):
    """The adapter for gptme, which has neither command files nor hooks that a project could add."""

    name = TOOL
    title = "gptme"
    tested_version = "0.35.1"
    command = "gptme"
    distribution = "gptme"
    folder_variables = ("GPTME_LOGS_HOME",)
    prompt_is_public = True
    install_command = "pipx install gptme"

    def __init__(self, home: str | None = None, environ: Mapping[str, str] | None = None) -> None:
        super().__init__(home, environ)
        self._store = GptmeStore(self.home, self.own_environ)

    # ── transcripts ──────────────────────────────────────────────────────────────────────────────────

    def transcripts(self, project: str | None = None) -> Iterator[Transcript]:
        """Yield its transcripts on this machine (of one project, if given), in no particular order."""
        return self._store.transcripts(project)

    def transcript_at(self, path: str) -> Transcript | None:
        """Return the transcript in this file; None if it is not a transcript of gptme."""
        return self._store.transcript_at(path)

    def leftovers(self, listed: Sequence[Transcript]) -> Iterator[Leftover]:
        """Yield the other files among the conversations, without what belongs to one."""
        return unlisted_below(self._store.logs, listed, self.title, COMPANIONS)

    def watched(self) -> Watch:
        """Return the folder of all sessions."""
        return Watch(folders=[self._store.logs])

    def changed(self, path: str) -> list[Transcript]:
        """Return the session in this file."""
        return changed_below(self, self._store.logs, path)

    def read(self, transcript: Transcript, cursor: dict[str, Any] | None = None) -> GptmeReading:
        """Return a reading of the messages; with a cursor, only of those added since."""
        from cortext.tools.gptme.read import GptmeReading

        return GptmeReading(transcript, cursor)

    def copy(self, transcript: Transcript, target: str, later: Later | None = None) -> None:
        """Copy the log unchanged, and the session's settings and full history beside it."""
        self._store.copy(transcript.path, target, later)

    def put_back(self, copy: str, *, project: str) -> str:
        """Restore a kept copy to the tool's store if the session is missing there; return the session's key."""
        from cortext.tools.gptme.write import put_back

        return put_back(self._store, copy)

    def withheld(self, transcript: Transcript) -> Withheld | None:
        """Return what gptme sends in another form; None after a compaction."""
        if is_compacted(transcript.path):
            return None
        from cortext.tools.gptme.withheld import withheld

        return withheld(transcript)

    def rewinds(self, transcript: Transcript) -> int:
        """Return how many earlier states gptme has set aside, because the user undid or edited messages."""
        try:
            return len(os.listdir(os.path.join(folder_of(transcript.path), "branches")))
        except OSError:
            return 0

    def refusal(self, transcript: Transcript) -> str:
        """Return why gptme would end at once, or after the next answer, in a session with these settings.

        It keeps `--non-interactive`, which no option takes back, and the model, whose provider needs a variable.
        """
        settings = settings_of(folder_of(transcript.path))
        if not settings.get("interactive", True):
            return "it was held without a terminal, and gptme would end after its next answer"
        model = settings.get("model")
        needed = _NEEDED.get(model.partition("/")[0], ()) if isinstance(model, str) else ()
        if not needed or any(self._variable(name) for name in needed):
            return ""
        return f"it was held with the model {model!r}, and {' or '.join(needed)} is not set"

    def _variable(self, name: str) -> object:
        """Return a variable of the environment or of the user's settings."""
        folder = os.path.dirname(self._store.user_settings)
        files = ("config.local.toml", "config.toml", "config.runtime.toml")
        found = self.own_environ.get(f"GPTME_{name}") or self.own_environ.get(name)
        return found or next(filter(None, (settings_of(folder, "env", file).get(name) for file in files)), "")

    # ── native sessions ──────────────────────────────────────────────────────────────────────────────

    def preview(self, messages: Messages) -> Written:
        """Return what `write` would report for these messages; nothing is written."""
        from cortext.tools.gptme.render import Rendering
        from cortext.tools.gptme.write import REAL_CALLS

        return Written.of(Rendering(messages, real_calls=self._tool_format() == REAL_CALLS).normal)

    def write(
        self, messages: Messages, *, project: str, title: str = "", key: str = "", model: str = "", note: str = ""
    ) -> Written:
        """Write a new native session of this project with these messages as real turns."""
        from cortext.tools.gptme.write import write_session

        return write_session(self._store, messages, project, title, key, note, self._tool_format())

    def launch(self, written_or_key: str, *, project: str, prompt: str = "", model: str = "") -> Launch:
        """Return how to open that session interactively; the prompt, if any, is sent first."""
        check_argument(prompt)
        options = [*(["--model", model] if model else []), *(["--", prompt] if prompt else [])]
        program = self.program.path() or self.program.command
        return Launch(argv=[program, "--name", written_or_key, *options], cwd=project)

    def launch_new(self, *, project: str, prompt: str, title: str = "", model: str = "") -> tuple[Written, Launch]:
        """Write a new session that contains the prompt; return it and how to open it."""
        written = self.write([], project=project, title=title, note=prompt)
        return written, self.launch(written.key, project=project, prompt=GO_ON, model=model)

    def discard(self, written: Written, *, project: str) -> None:
        """Remove a session that was never used."""
        if written.path:
            from cortext.io import durable

            durable.remove_tree(os.path.dirname(written.path))

    def _tool_format(self) -> str:
        """Return the format that the user has chosen, or the one that gptme uses with almost every model.

        It is written into the session's settings, so that the receipt does not depend on the model.
        """
        chosen = self.own_environ.get("TOOL_FORMAT")
        chosen = chosen or settings_of(os.path.dirname(self._store.user_settings), "env").get("TOOL_FORMAT")
        return chosen if chosen in ("markdown", "xml") else "tool"
