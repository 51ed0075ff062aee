"""The slash commands of the assistant, the same in the terminal and in a messenger.

A command returns an Outcome, which the face renders as a table, a list or a document.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from cortext.agents.assistant.context import compact_chat, headline, store_summary, summarise_chat
from cortext.agents.assistant.memory import Memory
from cortext.agents.assistant.sessions import SHOWN
from cortext.agents.assistant.turn import Assistant
from cortext.agents.talk.context import size
from cortext.agents.talk.slash import CommandTable, SlashCommand, Suggestion
from cortext.errors import CortextError, NoModel, NotFound, UsageError
from cortext.model import clock
from cortext.model.ids import chat_of
from cortext.model.order import tag_name
from cortext.model.query import Query
from cortext.model.session import IDLE, Change
from cortext.model.wording import amount, clip
from cortext.safety.framing import field
from cortext.safety.secrets.masking import mask
from cortext.services.library.export import as_markdown, masked
from cortext.services.library.listing import Row
from cortext.services.library.recall import masked_match
from cortext.services.library.search import heading_of, nothing_of
from cortext.store.assistant import FACT, KINDS

HEADS = ("ID", "Created", "Last Active", "Messages", "Summary")
MAX_BUTTONS = 10  # under a list
NEWEST = 1_000  # sessions whose ids are completed


class SearchHit(msgspec.Struct):
    """A session that a search found, and the passage that matched; `highlights` are the ranges to highlight."""

    id: str
    title: str
    where: str
    when: str
    snippet: str
    highlights: list[tuple[int, int]] = []


class Outcome(msgspec.Struct):
    """The result of a command. Which of the fields are used depends on the command."""

    text: str = ""
    above: str = ""  # a line before the rest
    rows: Sequence[tuple[str, ...]] = ()  # under `heads`; the first cell of each is a session's id
    heads: tuple[str, ...] = ()
    hits: list[SearchHit] = []
    markdown: bool = False  # whether the text is markdown from a model
    aligned: bool = False  # whether the text has columns and needs a fixed-width font
    document: str = ""  # a text to save under `name`
    name: str = ""
    buttons: list[tuple[str, str]] = []  # (label, command)


def created_notice(session_id: str) -> str:
    """Return the notice for a user whose first message started a session."""
    return f"Created session {session_id}. Use /new to start fresh or /sessions to resume a past conversation."


NO_SESSION = "There is no session yet. Use /new to start one or /sessions to resume a past conversation."
NO_SESSIONS = "There are no sessions yet. Send a message to start one."


class Commands:
    """Runs the commands of one assistant."""

    def __init__(self, assistant: Assistant, *, own_help: Sequence[tuple[str, str]] = ()) -> None:
        """`own_help` are the commands that the face itself handles, with their descriptions."""
        self._assistant, self._own_help = assistant, own_help
        self._sessions, self._store = assistant.sessions, assistant.store

    def run(self, chat: str, line: str, *, seed: str = "") -> Outcome:
        """Run `/name argument` and return its answer; an unknown name raises UsageError."""
        link, _, argument = line.strip().partition("_")
        if link.lower() == "/resume":  # /resume_ID is a form that a messenger turns into a link
            line = f"{link} {argument}"
        command, argument = COMMANDS.find(line)
        return self.do_new(chat, argument, seed) if command.name == "new" else command.run(self, chat, argument)

    def complete(self, text: str) -> list[Suggestion]:
        """Return the completions of a line: commands, and ids of sessions with a description of each."""
        return COMMANDS.complete(text, self._ids)

    def _ids(self, name: str, beginning: str) -> list[Suggestion]:
        if name not in ("resume", "delete") or " " in beginning:
            return []
        newest, listing = Query(limit=NEWEST), self._sessions.listing()
        answer = self._sessions.answer(newest) if name == "delete" else listing.answer(newest)
        matching = [row for row in answer.rows if row.id.startswith(beginning.lower())]
        return [Suggestion(row.id, len(beginning), _description(row)) for row in matching[:200]]

    def do_turn(self, chat: str, rest: str) -> Outcome:
        """Refuse an argument: without one, the face itself handles `/retry` and `/continue`, which are turns."""
        raise UsageError(
            "/retry and /continue take no arguments", kept="nothing was sent", hint="send the command on its own"
        )

    # ── sessions ─────────────────────────────────────────────────────────────────────────────────────

    def do_new(self, chat: str, rest: str, seed: str = "") -> Outcome:
        """`/new [TITLE]`."""
        session = self._sessions.start(chat, seed=seed)
        if rest:
            self._store.update(session.id, Change(title=rest))
        return Outcome(f"Created session {session.id}")

    def do_resume(self, chat: str, rest: str) -> Outcome:
        """`/resume ID`; without an id, list the sessions to choose from."""
        if not rest:
            listed = self.do_sessions(chat, "")
            if listed.rows:
                listed.text = "\n".join(filter(None, ("Resume which one? /resume ID", listed.text)))
            return listed
        resumed = self._sessions.resume(chat, rest)
        session, source = resumed.session, resumed.copied_from
        text = f"Resumed session {session.id} ({amount(session.message_count, 'message')})"
        if source is not None:
            text += f"\nIt continues {source.id} ({source.tool or source.kind}), which is unchanged."
        text += f"\nNote: {resumed.note}." if resumed.note else ""
        return Outcome(text)

    def do_sessions(self, chat: str, rest: str) -> Outcome:
        """`/sessions [all|shared|starred|archived|#TAG]`, or several of these."""
        wanted = rest.lower().split()
        everything = "all" in wanted
        flags = [*(["starred"] if "starred" in wanted else []), "archived" if "archived" in wanted else "unarchived"]
        tags = [tag_name(word) for word in wanted if word not in ("all", "shared", "starred", "archived")]
        query = Query(filters={"tag": ",".join(tags), "is": ",".join(flags)}, limit=0 if everything else SHOWN + 1)
        answer = self._sessions.answer(query, chat=chat, shared="shared" in wanted)
        rows, gone = answer.rows, answer.incomplete
        more = "" if everything or len(rows) <= SHOWN else "There are more: use /sessions all, or /search WORDS."
        if not rows and gone:
            return Outcome("No other session matches.", above=gone)
        if not rows:
            return Outcome("No session matches." if {*wanted} - {"all"} else NO_SESSIONS)
        self._sessions.show(chat, rows if everything else rows[:SHOWN])
        cells = [
            (row.id, clock.day(row.created_at), clock.ago(row.last_active), str(row.message_count), _description(row))
            for row in (rows if everything else rows[:SHOWN])
        ]
        buttons = [(clip(cell[4] or cell[0], 40), f"/resume {cell[0]}") for cell in cells[:MAX_BUTTONS]]
        above = f"{gone} These are in other stores:" if gone else ""
        return Outcome(more, above=above, rows=cells, heads=HEADS, buttons=buttons)

    def do_session(self, chat: str, rest: str) -> Outcome:
        """`/session`."""
        session_id = self._sessions.active(chat)
        if not session_id:
            return Outcome(NO_SESSION)
        session = self._store.get(session_id)
        started, count = clock.ago(session.created_at), session.message_count
        lines = [f"Current session: {session.id} (started {started}, {amount(count, 'message')})"]
        if session.status == IDLE:
            lines.append("It is idle: it has a summary, and you can continue it at any time.")
        return Outcome("\n".join(lines))

    def do_title(self, chat: str, rest: str) -> Outcome:
        """`/title [WORDS]`."""
        session_id = self._current(chat)
        if not rest:
            return Outcome(
                self._store.peek(session_id).title or "This session has no title. Set one with /title WORDS."
            )
        title = " ".join(rest.split())[:200]
        self._store.update(session_id, Change(title=title))
        return Outcome(f"Session {session_id} has the title: {title}")

    def do_delete(self, chat: str, rest: str) -> Outcome:
        """`/delete [ID]`."""
        session = self._sessions.delete(chat, rest)
        title = f' ("{field(mask(session.title).text)}")' if session.title else ""
        return Outcome(f"Deleted session {session.id}{title} of this assistant. Undo: /restore {session.id}")

    def do_restore(self, chat: str, rest: str) -> Outcome:
        """`/restore [ID]`."""
        session = self._sessions.restore(chat, rest)
        return Outcome(
            f"Restored session {session.id} ({amount(session.message_count, 'message')}); it is active in this chat."
        )

    def do_export(self, chat: str, rest: str) -> Outcome:
        """`/export`."""
        session = self._store.get(self._current(chat))
        messages, kinds = masked(self._store.read(session.id))
        text = f"Session {session.id} as markdown, {amount(len(messages), 'message')}"
        if kinds:
            text += f"; masked: {', '.join(sorted(set(kinds)))}"
        return Outcome(f"{text}.", document=as_markdown(session, messages), name=rest or f"{session.id}.md")

    # ── search and memory ───────────────────────────────────────────────────────────────────────────

    def do_search(self, chat: str, rest: str) -> Outcome:
        """`/search WORDS`."""
        if not rest:
            return Outcome("No search words were given. Use /search WORDS")
        hits = []
        search = self._assistant.search().reachable()
        answer = search.search(Query(rest, limit=8, per_session=1, among=self._assistant.knows(chat)))
        for found in answer.hits:
            row = found.session
            match = found.matches[0] if found.matches else None
            where = row.tool or ("alfred" if row.kind == "chat" else row.agent or row.kind)
            snippet, highlights = _description(row), []
            if match is not None:  # the answer may go to a group chat
                masked = masked_match(search.listing, row, match)
                snippet, highlights = masked.snippet, list(masked.highlights)
            hits.append(SearchHit(row.id, mask(row.title).text, where, clock.ago(row.last_active), snippet, highlights))
        if not hits:
            return Outcome(nothing_of(answer, rest), above=answer.incomplete)
        return Outcome(above=heading_of(answer, rest), hits=hits)

    def do_memory(self, chat: str, rest: str) -> Outcome:
        """`/memory [WORDS]`."""
        memory = self._memory(chat)
        facts = memory.search(rest, 20) if rest else memory.all()
        lines = [f"{fact.id} ({fact.kind}): {fact.text}" for fact in facts]
        return Outcome("\n".join(lines) or "Nothing is remembered yet. Use /remember WORDS")

    def do_remember(self, chat: str, rest: str) -> Outcome:
        """`/remember [KIND:] WORDS`."""
        kind, colon, text = rest.partition(":")
        if not colon or kind.strip().lower() not in KINDS:
            kind, text = FACT, rest
        if not text.strip():
            return Outcome(
                f"Nothing to remember. Use /remember WORDS, or /remember KIND: WORDS with one of {', '.join(KINDS)}"
            )
        # A messenger's chat knows what was stated in it, even if it has no session yet.
        session_id = self._sessions.active(chat) or (chat if chat_of(chat) else "")
        fact = self._memory(chat).remember(text, kind=kind.strip().lower(), session_id=session_id)
        kind = "" if fact.kind == FACT else f" ({fact.kind})"
        return Outcome(f"Remembered as {fact.id}{kind}: {fact.text}")

    def do_forget(self, chat: str, rest: str) -> Outcome:
        """`/forget ID`; without an id, list the facts to choose from."""
        if not rest:
            facts = self._memory(chat).all()
            listed = self.do_memory(chat, "")
            listed.text = f"Forget which one? /forget ID\n{listed.text}" if facts else listed.text
            listed.buttons = [(clip(fact.text, 40), f"/forget {fact.id}") for fact in facts[-MAX_BUTTONS:]]
            return listed
        return Outcome(f"Forgotten: {self._memory(chat).forget(rest).text}")

    # ── the model's context ──────────────────────────────────────────────────────────────────────────

    def do_context(self, chat: str, rest: str) -> Outcome:
        """`/context`."""
        session_id = self._current(chat)
        try:
            model = self._assistant.models.take()
            self._assistant.models.give_back(model)
            window, name, tools = model.context, model.name, model.takes_tools
        except NoModel:
            window, name, tools = 0, "no model", True
        view, sections, summary = self._assistant.context(session_id, window, tools=tools)
        before = [*sections, *([summary] if summary else [])]
        lines = [f"{section.name:<10}{section.tokens:>9,} tokens" for section in before]
        used = sum(map(size, view.messages)) - (summary.tokens if summary else 0)
        count = view.turns - bool(summary)
        lines.append(f"{'messages':<10}{used:>9,} tokens ({count} of this session)")
        if view.dropped.turns:
            lines.append(f"{view.dropped.turns} older messages do not fit; /compact summarises them")
        lines.append(f"{'total':<10}{view.tokens:>9,} of {view.limit:,} ({view.percent} %), {name}")
        return Outcome("\n".join(lines), aligned=True)

    def do_compact(self, chat: str, rest: str) -> Outcome:
        """`/compact`: store a summary, then archive the messages that it covers."""
        session_id = self._current(chat)
        session = self._store.peek(session_id)
        note = ""
        try:
            model = self._assistant.models.take()
        except NoModel:
            model = None
        try:
            summary = summarise_chat(self._store, session, model)
        except CortextError as error:
            note = f" The model gave no summary ({error.message}); it was extracted from the conversation instead."
            summary = summarise_chat(self._store, session, None)
        finally:
            if model is not None:
                self._assistant.models.give_back(model)
        if summary is not None:
            store_summary(self._store, session, summary)
        moved = compact_chat(self._store, self._store.peek(session_id), self._assistant.keep_messages)
        if not moved:
            return Outcome(
                f"Nothing to archive: the newest {self._assistant.keep_messages} messages always stay.{note}"
            )
        return Outcome(f"Archived {moved} older messages; the model sees their summary.{note}")

    def do_help(self, chat: str, rest: str) -> Outcome:
        """`/help`."""
        return Outcome("\n".join(f"{typed} – {about}" for typed, about in [*COMMANDS.help(), *self._own_help]))

    def _memory(self, chat: str) -> Memory:
        """Return the memory that a chat may list and change: on the command line, all of it."""
        return self._assistant.memory_of(chat) if chat_of(chat) else self._assistant.memory

    def _current(self, chat: str) -> str:
        session_id = self._sessions.active(chat)
        if not session_id:
            raise NotFound("there is no session in this chat yet", hint="send a message, or use /resume")
        return session_id


def _description(row: Row) -> str:
    return clip(mask(headline(row.summary) or row.title).text, 100)


COMMANDS = CommandTable[Callable[[Commands, str, str], Outcome]](
    (
        SlashCommand("new", "", "start a new session", Commands.do_new),
        SlashCommand(
            "resume",
            "ID",
            "continue a session of any tool: its row in /sessions, its id, or words from it",
            Commands.do_resume,
        ),
        SlashCommand(
            "sessions",
            "[all|shared|starred|archived|#TAG]",
            "list the sessions, most recently active first; shared: what others share with you",
            Commands.do_sessions,
        ),
        SlashCommand("session", "", "show the current session", Commands.do_session),
        SlashCommand("retry", "", "ask again for an answer to your last message", Commands.do_turn),
        SlashCommand("continue", "", "continue an answer that was cut off", Commands.do_turn),
        SlashCommand("search", "WORDS", "search the sessions of every tool", Commands.do_search),
        SlashCommand("title", "[WORDS]", "show or set the title of this session", Commands.do_title),
        SlashCommand("context", "", "show what the model is sent, and its size", Commands.do_context),
        SlashCommand("compact", "", "summarise and archive the older messages", Commands.do_compact),
        SlashCommand("memory", "[WORDS]", "list or search what is remembered", Commands.do_memory),
        SlashCommand(
            "remember", "[KIND:] WORDS", f"remember it in all sessions ({', '.join(KINDS)})", Commands.do_remember
        ),
        SlashCommand("forget", "ID", "forget something that is remembered", Commands.do_forget),
        SlashCommand("export", "", "export this session as a document, secrets masked", Commands.do_export),
        SlashCommand("delete", "[ID]", "move a session to the trash", Commands.do_delete),
        SlashCommand("restore", "[ID]", "restore a deleted session", Commands.do_restore),
        SlashCommand("help", "", "list the commands", Commands.do_help),
    )
)
