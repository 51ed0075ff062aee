"""The adapter for Codex: rollout files below `$CODEX_HOME/sessions`, skills as commands, hooks that need approval.

A hook imports this module at every turn and only reads, so modules that write or start something are imported where
they are used.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any

from cortext.errors import DamagedData, NotFound
from cortext.io import durable, new_files
from cortext.model import clock
from cortext.model.headless import Question, Run
from cortext.safety.framing import GO_ON
from cortext.tools.base import (
    CommandFile,
    HookEvent,
    Launch,
    Leftover,
    Messages,
    Transcript,
    TranscriptReading,
    Watch,
    Withheld,
    Written,
)
from cortext.tools.codex import compressed
from cortext.tools.codex import pages as codex_pages
from cortext.tools.codex.pages import COPIES, Page
from cortext.tools.shared.leftovers import unlisted_below
from cortext.tools.shared.local import LocalTool
from cortext.tools.shared.program import Program, check_argument
from cortext.tools.shared.settings import SettingsFiles

if TYPE_CHECKING:
    from cortext.tools.shared.installer import Config

# Codex cannot resume an archived thread, so it is unarchived first.
_UNARCHIVE = '"$0" unarchive "$1" >/dev/null && shift && exec "$0" "$@"'


class Codex(SettingsFiles, LocalTool):
    """The adapter for Codex."""

    name = "codex"
    title = "Codex"
    tested_version = "0.166.0"
    command = "codex"
    folder_variables = ("CODEX_HOME",)
    commands_run = False
    records_after_answer = True
    prompt_is_public = True
    first_steps = (
        "$workspace-brainstorm TOPIC",
        "Codex runs hooks only after you trust them: choose",
        '"Trust all and continue" at the start, or type /hooks, then t.',
    )
    started_by = session_variable = "CODEX_THREAD_ID"
    install_command = "npm install -g @openai/codex"
    headless_context = 272_000

    def __init__(self, home: str | None = None, environ: Mapping[str, str] | None = None) -> None:
        super().__init__(home, environ)
        self.folder = self.own_environ.get("CODEX_HOME") or os.path.join(self.home, ".codex")
        self.sessions = os.path.join(self.folder, "sessions")
        self.archive = os.path.join(self.folder, "archived_sessions")

    def _find_program(self) -> Program:
        # Codex creates a folder in its home at every start. With no home, asking for the version leaves nothing behind.
        no_home = {"HOME": os.devnull, "CODEX_HOME": os.devnull}
        return Program(self.command, self.environ, version_env=no_home)

    def launch(self, written_or_key: str, *, project: str, prompt: str = "", model: str = "") -> Launch:
        """Return how to start Codex interactively with that thread open; it sends the prompt at once."""
        program = self.program.path()
        if not program:
            raise NotFound(
                "Codex is not installed here",
                kept="nothing was changed",
                hint=f"install it with `{self.install_command}`, or choose another tool with --ai",
            )
        check_argument(prompt)
        options = ["-m", model] if model else []
        arguments = ["resume", *options, written_or_key, *(["--", prompt] if prompt else [])]
        argv = [program, *arguments]
        if any(page.thread == written_or_key for page in codex_pages.scan(self.archive)):
            argv = ["/bin/sh", "-c", _UNARCHIVE, program, written_or_key, *arguments]
        default = os.path.join(self.environ.get("HOME", ""), ".codex")
        return Launch(argv=argv, cwd=project, env={} if self.folder == default else {"CODEX_HOME": self.folder})

    # ── transcripts ──────────────────────────────────────────────────────────────────────────────────

    def transcripts(self, project: str | None = None) -> Iterator[Transcript]:
        """Yield every thread, archived ones too. A subagent has a thread of its own."""
        wanted = None if project is None else {project, os.path.realpath(project)}
        for pages in codex_pages.by_thread(self._all_pages()).values():
            transcript = _transcript(pages)
            if wanted is None or transcript.project in wanted:
                yield transcript

    def _all_pages(self) -> Iterator[Page]:
        yield from codex_pages.scan(self.archive)
        yield from codex_pages.scan(self.sessions)

    def transcript_at(self, path: str) -> Transcript | None:
        """Return the thread that a file belongs to: a page in the store, or a copy at any path."""
        page = codex_pages.from_name(path)
        if os.path.islink(path):
            return None
        if page is not None and os.path.isfile(path):
            return _transcript(codex_pages.siblings(page) if page.page != page.thread else codex_pages.later(page))
        head = codex_pages.head_of(path)
        if head is None or not codex_pages.is_thread(head.meta.id.lower()):
            return None
        copy = codex_pages.with_fingerprint(Page(path, "", head.meta.id.lower(), head.meta.id.lower()))
        return _transcript([copy])

    def leftovers(self, listed: Sequence[Transcript]) -> Iterator[Leftover]:
        """Yield the files among the threads that are no pages of one; the first versions kept documents."""
        pages = {page.path for page in self._all_pages()}
        for folder in (self.archive, self.sessions):
            yield from unlisted_below(folder, listed, self.title, is_companion=pages.__contains__)

    def watched(self) -> Watch:
        """Return the folder of all threads; what is archived does not change."""
        return Watch(folders=[self.sessions])

    def changed(self, path: str) -> list[Transcript]:
        """Return the thread that this page belongs to."""
        found = self.transcript_at(path) if codex_pages.from_name(path) is not None else None
        return [found] if found is not None else []

    def read(self, transcript: Transcript, cursor: dict[str, Any] | None = None) -> TranscriptReading:
        """Return the messages of all pages of a thread; with a cursor, only those added since."""
        from cortext.tools.codex.read import CodexReading, titles

        pages, by_id = self._pages_of(transcript)
        title = titles(os.path.join(self.folder, "session_index.jsonl")).get(transcript.key, "")
        return CodexReading(pages, by_id, title=title, cursor=cursor)

    def _pages_of(self, transcript: Transcript) -> tuple[list[Page], dict[str, Page]]:
        """Return the pages of a thread in order, and by id every page that they may continue."""
        path = transcript.path
        page = codex_pages.from_name(path) or Page(path, "", transcript.key, transcript.key)
        head = codex_pages.head_of(path)
        is_single = page.page == page.thread and (head is None or head.meta.history_base is None)
        if is_single and not os.path.isdir(path + COPIES):
            return [page], {}
        roots = [codex_pages.root_of(path)]
        if not os.path.isdir(path + COPIES):
            roots += [self.archive, self.sessions]
        found = [other for root in roots for other in codex_pages.scan(root)]
        pages = codex_pages.by_thread(iter(found)).get(page.thread) or [page]
        return pages, {other.page: other for other in found}

    def copy(self, transcript: Transcript, target: str, later: new_files.Later | None = None) -> None:
        """Copy the newest page, unpacked; if the thread has more, copy all of them to a folder next to it."""
        pages, by_id = self._pages_of(transcript)
        segments = codex_pages.segments(pages, by_id, [])
        new_files.ensure_folder(os.path.dirname(target), later)
        if len(segments) > 1:
            new_files.ensure_folder(target + COPIES, later)
            for segment in segments:
                path = segment.page.path
                name = os.path.basename(path).removesuffix(codex_pages.COMPRESSED if compressed.library() else "")
                new_files.mirror_file(compressed.plain(path) or path, os.path.join(target + COPIES, name), later)
        new_files.mirror_file(compressed.plain(transcript.path) or transcript.path, target, later)

    def images(self, transcript: Transcript, refs: AbstractSet[str]) -> dict[str, bytes]:
        """Return the bytes of those of these images that are in the transcript."""
        from cortext.tools.codex.records import image_in
        from cortext.tools.shared.inline_images import in_lines

        return in_lines(transcript, refs, image_in)

    def put_back(self, copy: str, *, project: str) -> str:
        """Restore the pages of a thread that are no longer in the store; return the thread's id."""
        transcript = self.transcript_at(copy)
        if transcript is None:
            raise DamagedData(f"not a transcript of Codex: {copy}", kept="the file is unchanged")
        present = {page.page for page in self._all_pages()}
        pages = list(codex_pages.scan(copy + COPIES)) or [_as_page(copy, transcript.key)]
        for page in pages:
            if page.page not in present:
                folder = os.path.join(self.sessions, codex_pages.folder_of(page))
                name = os.path.basename(page.path) if page.path != copy else f"rollout-{page.when}-{page.thread}.jsonl"
                durable.ensure_folder(folder)
                new_files.mirror_file(page.path, os.path.join(folder, name))
        return transcript.key

    def withheld(self, transcript: Transcript) -> Withheld | None:
        """Return nothing withheld, or None if the thread was compacted: Codex alone knows what it then sends."""
        pages, by_id = self._pages_of(transcript)
        paths = [segment.page.path for segment in codex_pages.segments(pages, by_id, [])]
        return None if any(map(codex_pages.is_compacted, paths)) else Withheld()

    def refusal(self, transcript: Transcript) -> str:
        """Return that the thread was held with a model provider that is not the current one."""
        from cortext.tools.codex.provider import current_provider, provider_of

        held_with, current = provider_of(self._pages_of(transcript)[0]), current_provider(self.folder)
        if not held_with or not current or held_with == current:
            return ""
        return f"it was held with the model provider {held_with!r}, and the current one is {current!r}"

    # ── writing ──────────────────────────────────────────────────────────────────────────────────────

    def preview(self, messages: Messages) -> Written:
        """Return what `write` would report for these messages."""
        from cortext.tools.codex.render import Rendering

        return Written.of(Rendering(messages).normal)

    def write(
        self, messages: Messages, *, project: str, title: str = "", key: str = "", model: str = "", note: str = ""
    ) -> Written:
        """Write a new thread with these messages as real turns. Its model is set by the user or by `launch`."""
        from cortext.tools.codex import write as codex_write
        from cortext.tools.codex.provider import DEFAULT, current_provider
        from cortext.tools.codex.render import Rendering

        is_free = codex_pages.is_thread(key) and not any(page.thread == key for page in self._all_pages())
        return codex_write.write(
            Rendering(messages, note),
            self.sessions,
            thread=key if is_free else codex_write.new_thread(),
            project=os.path.abspath(project),
            title=title,
            version=self.tested_version,
            provider=current_provider(self.folder) or DEFAULT,
        )

    def launch_new(self, *, project: str, prompt: str, title: str = "", model: str = "") -> tuple[Written, Launch]:
        """Write a thread that contains only the prompt, and return how to start Codex with it.

        Codex cannot start a new thread with a given id, only resume one.
        """
        from cortext.tools.codex import write as codex_write
        from cortext.tools.codex.provider import DEFAULT, current_provider

        thread = codex_write.new_thread()
        launch = self.launch(thread, project=project, prompt=GO_ON, model=model)
        written = codex_write.write_prompt(
            prompt,
            self.sessions,
            thread=thread,
            project=os.path.abspath(project),
            title=title,
            version=self.tested_version,
            provider=current_provider(self.folder) or DEFAULT,
        )
        return written, launch

    def discard(self, written: Written, *, project: str) -> None:
        """Remove a rollout that nobody used."""
        durable.remove(written.path)

    # ── project settings and hooks ───────────────────────────────────────────────────────────────────

    def files(self, commands: Sequence[CommandFile], program: Sequence[str]) -> dict[str, bytes]:
        """Return the commands as skill files of the project, and the skill about cortext."""
        from cortext.tools.codex.skills import skill_files
        from cortext.tools.shared.agent_skill import agent_skill

        return skill_files(commands, program) | agent_skill()

    def configs(self, program: Sequence[str] = ("cortext",)) -> Sequence[Config]:
        """Return our entries: the hooks and the MCP server in `.codex`."""
        from cortext.tools.codex.install import configs

        return configs(program)

    def hooks_off(self, project: str) -> list[tuple[str, str]]:
        """Report hooks that the user has not trusted yet: Codex does not run those."""
        from cortext.tools.codex.install import trust_hint

        hint = trust_hint(os.path.join(self.folder, "config.toml"), project)
        return [("they are not trusted yet", hint)] if hint else []

    def mcp_servers(self, project: str) -> set[str]:
        """Return the names of the MCP servers of the project and of the user."""
        from cortext.tools.shared.mcp_servers import servers_of

        return servers_of(os.path.join(self.folder, "config.toml"), project, ".codex/config.toml", key="mcp_servers")

    def hook_event(self, payload: dict[str, Any]) -> HookEvent | None:
        """Translate a hook payload; return None if it names no event or no thread."""
        from cortext.tools.codex import hooks as codex_hooks

        return codex_hooks.hook_event(payload)

    def hook_answer(self, payload: dict[str, Any], context: str) -> str:
        """Return what to print so that the model gets `context` with this event; empty if it cannot."""
        from cortext.tools.codex import hooks as codex_hooks

        return codex_hooks.hook_answer(payload, context)

    # ── headless ─────────────────────────────────────────────────────────────────────────────────────

    def program_path(self) -> str:
        """Return the path of the executable; empty if it is not installed."""
        return self.program.path()

    def ask(self, question: Question) -> Run:
        """Return how to run Codex for one answer."""
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
    """Return a copy as a page. Its first line has the start time in UTC; file names have local time."""
    head = codex_pages.head_of(copy)
    started = clock.to_epoch(head.meta.timestamp or "") if head else None
    when = time.strftime("%Y-%m-%dT%H-%M-%S", time.localtime(started))
    return Page(copy, when, thread, thread)
