"""Codex: rollout files below `$CODEX_HOME/sessions`, skills instead of commands, hooks that need approval.

A hook starts us at every turn, and only reads: what writes or starts something is imported where it is used.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cortext.errors import DamagedData, NotFound
from cortext.io import batch as newfiles
from cortext.io import files as fsio
from cortext.model import clock
from cortext.model.headless import Question, Run
from cortext.safety.framing import GO_ON
from cortext.tools.base import (
    CommandFile,
    Detected,
    HookEvent,
    Launch,
    Messages,
    Transcript,
    TranscriptReading,
    Withheld,
    Written,
)
from cortext.tools.codex import pages as codex_pages
from cortext.tools.codex.pages import COPIES, Page
from cortext.tools.shared.program import Program, check_argument

# An archived thread cannot be resumed; it is brought back first.
_UNARCHIVE = '"$0" unarchive "$1" >/dev/null && shift && exec "$0" "$@"'


class Codex:
    """The adapter for Codex."""

    name = "codex"
    title = "Codex"
    tested_version = "0.166.0"
    commands_run = False
    records_after_answer = True
    prompt_is_public = True
    first_steps = (
        "$workspace-brainstorm TOPIC",
        "It runs our hooks only once you trust them: choose",
        '"Trust all and continue" when it starts, or later /hooks, then t.',
    )
    started_by = session_variable = "CODEX_THREAD_ID"
    install_command = "npm install -g @openai/codex"
    headless_context = 272_000

    def __init__(self, home: str | None = None, environ: Mapping[str, str] | None = None) -> None:
        self._environ = dict(os.environ if environ is None else environ)
        # Codex makes a folder in its home at every start: it is asked for its version where it cannot.
        nowhere = {"HOME": os.devnull, "CODEX_HOME": os.devnull}
        self._program = Program("codex", self._environ, version_env=nowhere)
        usual = os.path.join(home or self._environ.get("HOME") or os.path.expanduser("~"), ".codex")
        # A home that is given outright is meant, whatever the environment says.
        self.folder = usual if home else self._environ.get("CODEX_HOME") or usual
        self.sessions = os.path.join(self.folder, "sessions")
        self.archive = os.path.join(self.folder, "archived_sessions")

    # ── the program ──────────────────────────────────────────────────────────────────────────────────

    def detect(self) -> Detected | None:
        """Whether it is installed here, and which version."""
        return self._program.detect(self.tested_version)

    def launch(self, written_or_key: str, *, project: str, prompt: str = "", model: str = "") -> Launch:
        """Open a thread on the screen; the prompt is sent at once."""
        program = self._program.path()
        if not program:
            raise NotFound("Codex is not installed here", hint="npm install -g @openai/codex")
        check_argument(prompt)
        options = ["-m", model] if model else []
        arguments = ["resume", *options, written_or_key, *(["--", prompt] if prompt else [])]
        argv = [program, *arguments]
        if any(page.thread == written_or_key for page in codex_pages.scan(self.archive)):
            argv = ["/bin/sh", "-c", _UNARCHIVE, program, written_or_key, *arguments]
        usual = os.path.join(self._environ.get("HOME", ""), ".codex")
        return Launch(argv=argv, cwd=project, env={} if self.folder == usual else {"CODEX_HOME": self.folder})

    # ── its conversations ────────────────────────────────────────────────────────────────────────────

    def transcripts(self, project: str | None = None) -> Iterator[Transcript]:
        """Every thread, archived ones too; a side agent's is one of its own."""
        wanted = None if project is None else {project, os.path.realpath(project)}
        for pages in codex_pages.by_thread(self._all_pages()).values():
            transcript = _transcript(pages)
            if wanted is None or transcript.project in wanted:
                yield transcript

    def _all_pages(self) -> Iterator[Page]:
        yield from codex_pages.scan(self.archive)
        yield from codex_pages.scan(self.sessions)

    def transcript_at(self, path: str) -> Transcript | None:
        """The thread that a file belongs to: a page in the store, or a copy that lies somewhere else."""
        page = codex_pages.named(path)
        if os.path.islink(path):
            return None
        if page is not None and os.path.isfile(path):
            return _transcript(codex_pages.siblings(page) if page.page != page.thread else codex_pages.later(page))
        head = codex_pages.head_of(path)
        if head is None or not codex_pages.is_thread(head.meta.id.lower()):
            return None
        copy = codex_pages.with_signs(Page(path, "", head.meta.id.lower(), head.meta.id.lower()))
        return _transcript([copy])

    def read(self, transcript: Transcript, cursor: dict[str, Any] | None = None) -> TranscriptReading:
        """The messages of a thread, all pages of it; with a cursor only those since."""
        from cortext.tools.codex.read import CodexReading, titles

        own, places = self._pages_of(transcript)
        title = titles(os.path.join(self.folder, "session_index.jsonl")).get(transcript.key, "")
        return CodexReading(own, places, title=title, cursor=cursor)

    def _pages_of(self, transcript: Transcript) -> tuple[list[Page], dict[str, Page]]:
        """The pages of a thread in order, and where the pages are that it may go on from."""
        path = transcript.path
        page = codex_pages.named(path) or Page(path, "", transcript.key, transcript.key)
        head = codex_pages.head_of(path)
        alone = page.page == page.thread and (head is None or head.meta.history_base is None)
        if alone and not os.path.isdir(path + COPIES):
            return [page], {}
        shelves = [codex_pages.shelf_of(path)]
        if not os.path.isdir(path + COPIES):
            shelves += [self.archive, self.sessions]
        found = [other for shelf in shelves for other in codex_pages.scan(shelf)]
        own = codex_pages.by_thread(iter(found)).get(page.thread) or [page]
        return own, {other.page: other for other in found}

    def copy(self, transcript: Transcript, target: str, later: newfiles.Later | None = None) -> None:
        """Keep the newest page; where a thread has more, all of them in a folder beside it."""
        own, places = self._pages_of(transcript)
        segments = codex_pages.segments(own, places, [])
        newfiles.ensure_folder(os.path.dirname(target), later)
        if len(segments) > 1:
            newfiles.ensure_folder(target + COPIES, later)
            for segment in segments:
                path = segment.page.path
                newfiles.mirror_file(path, os.path.join(target + COPIES, os.path.basename(path)), later)
        newfiles.mirror_file(transcript.path, target, later)

    def put_back(self, copy: str, *, project: str) -> str:
        """Bring back the pages of a thread that are not in the store any more, as they were."""
        transcript = self.transcript_at(copy)
        if transcript is None:
            raise DamagedData(f"{copy} is not a conversation of Codex", kept="it is unchanged")
        there = {page.page for page in self._all_pages()}
        pages = list(codex_pages.scan(copy + COPIES)) or [_as_page(copy, transcript.key)]
        for page in pages:
            if page.page not in there:
                folder = os.path.join(self.sessions, codex_pages.folder_of(page))
                name = os.path.basename(page.path) if page.path != copy else f"rollout-{page.when}-{page.thread}.jsonl"
                fsio.ensure_folder(folder)
                newfiles.mirror_file(page.path, os.path.join(folder, name))
        return transcript.key

    def withheld(self, transcript: Transcript) -> Withheld | None:
        """Everything is sent, unless the thread was compacted: what is left then is in the program's own form."""
        own, places = self._pages_of(transcript)
        pages = [segment.page.path for segment in codex_pages.segments(own, places, [])]
        return None if any(map(codex_pages.is_compacted, pages)) else Withheld()

    # ── writing ──────────────────────────────────────────────────────────────────────────────────────

    def preview(self, messages: Messages) -> Written:
        """What `write` would report for these messages."""
        from cortext.tools.codex.render import Rendering

        return Written.of(Rendering(messages).normal)

    def write(
        self, messages: Messages, *, project: str, title: str = "", key: str = "", model: str = "", note: str = ""
    ) -> Written:
        """A new thread that holds these messages as real turns. Its model is the user's setting, or `launch`'s."""
        from cortext.tools.codex import write as codex_write
        from cortext.tools.codex.provider import provider_for
        from cortext.tools.codex.render import Rendering

        pages = list(self._all_pages())
        free = codex_pages.is_thread(key) and not any(page.thread == key for page in pages)
        return codex_write.write(
            Rendering(messages, note),
            self.sessions,
            thread=key if free else codex_write.new_thread(),
            project=os.path.abspath(project),
            title=title,
            version=self.tested_version,
            provider=provider_for(self.folder, pages),
        )

    def launch_new(self, *, project: str, prompt: str, title: str = "", model: str = "") -> tuple[Written, Launch]:
        """A thread of a given id can only be resumed, so one in which only the prompt stands is written first."""
        from cortext.tools.codex import write as codex_write
        from cortext.tools.codex.provider import provider_for

        thread = codex_write.new_thread()
        launch = self.launch(thread, project=project, prompt=GO_ON, model=model)
        written = codex_write.write_begun(
            prompt,
            self.sessions,
            thread=thread,
            project=os.path.abspath(project),
            title=title,
            version=self.tested_version,
            provider=provider_for(self.folder, self._all_pages()),
        )
        return written, launch

    def discard(self, written: Written, *, project: str) -> None:
        """Take away a rollout that nobody used."""
        fsio.remove(written.path)

    # ── the project's files, and hooks ───────────────────────────────────────────────────────────────

    def files(self, commands: Sequence[CommandFile], program: Sequence[str]) -> dict[str, bytes]:
        """Our commands, as skills."""
        from cortext.tools.codex.skills import skill_files

        return skill_files(commands, program)

    def install_settings(
        self, project: str, program: Sequence[str], *, server: bool = True, dry_run: bool = False
    ) -> list[str]:
        """Put hooks and the MCP entry into `.codex`."""
        from cortext.tools.codex.install import configs
        from cortext.tools.shared import installer

        return installer.install(project, configs(program), server=server, dry_run=dry_run)

    def remove_settings(self, project: str, *, dry_run: bool = False) -> list[str]:
        """Remove exactly what `install_settings` put in."""
        from cortext.tools.codex.install import configs
        from cortext.tools.shared import installer

        return installer.remove(project, configs(), dry_run=dry_run)

    def hooks_off(self, project: str) -> list[tuple[str, str]]:
        """It runs hooks once its user has trusted them."""
        from cortext.tools.codex.install import untrusted

        todo = untrusted(os.path.join(self.folder, "config.toml"), project)
        return [("they are not trusted yet", todo)] if todo else []

    def mcp_servers(self, project: str) -> set[str]:
        """Servers of the project and of the user."""
        from cortext.io.inside import if_inside
        from cortext.tools.shared.mcp_servers import names_in

        paths = (if_inside(project, os.path.join(".codex", "config.toml")), os.path.join(self.folder, "config.toml"))
        return set().union(*(names_in(path, "mcp_servers") for path in paths))

    def hook_event(self, payload: dict[str, Any]) -> HookEvent | None:
        """A hook's payload in our words."""
        from cortext.tools.codex import hooks as codex_hooks

        return codex_hooks.hook_event(payload)

    def hook_answer(self, payload: dict[str, Any], context: str) -> str:
        """What to print so that the model gets `context` with this event."""
        from cortext.tools.codex import hooks as codex_hooks

        return codex_hooks.hook_answer(payload, context)

    # ── without its screen ───────────────────────────────────────────────────────────────────────────

    def program_path(self) -> str:
        """Where the program is; empty where it is not installed."""
        return self._program.path()

    def ask(self, question: Question) -> Run:
        """How to get one answer."""
        from cortext.tools.codex import headless

        return headless.ask(question)


def _transcript(pages: list[Page]) -> Transcript:
    newest = pages[-1]
    return Transcript(
        tool=Codex.name,
        key=newest.thread,
        path=newest.path,
        project=codex_pages.project_of(pages[0].path),
        size=sum(page.size for page in pages),
        changed=max(page.changed for page in pages),
    )


def _as_page(copy: str, thread: str) -> Page:
    """A kept copy as the page that it was: the first line says when it began, in UTC; names say local time."""
    head = codex_pages.head_of(copy)
    began = clock.to_epoch(head.meta.timestamp or "") if head else None
    when = time.strftime("%Y-%m-%dT%H-%M-%S", time.localtime(began))
    return Page(copy, when, thread, thread)
