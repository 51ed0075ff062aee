"""The life cycle of a conversation in a workspace: stop, complete, pause, title, prune."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import msgspec

from cortext.config.schema import Settings
from cortext.errors import CortextError, NotFound, UsageError
from cortext.model.asides import only_asks
from cortext.model.message import ASSISTANT, TOOL_CALL, USER, Message
from cortext.model.session import ACTIVE, BY_OTHER, BY_TEXT, COMPLETED, DETAILS, PAUSED, Change, Session
from cortext.model.threads import thread
from cortext.model.titles import best_title, is_poor_title, is_titled_by_user
from cortext.model.wording import kinds
from cortext.services.library.stores import NamedStore, StoredConversation, damage_note
from cortext.services.projects.git import CommitResult, Git
from cortext.services.text.sentences import text_of
from cortext.services.text.summaries import summarise
from cortext.services.text.threads import StoredThread
from cortext.services.text.titles import title
from cortext.services.workspace import committing, pausing
from cortext.services.workspace.committing import count_masked
from cortext.store.base import Store
from cortext.store.capabilities import Compacts

_SAVING = re.compile(r"save_session|cortext (?:stop|complete)\b")


class SaveResult(msgspec.Struct, kw_only=True):
    """The result of a stop or a completion."""

    session: Session
    stopped_at: str
    commit: CommitResult
    masked: dict[str, int] = {}  # secrets that were masked in what was committed, by kind


def save(
    named_store: NamedStore, session_id: str, status: str, *,
    commit: bool = True, amend: bool = False, force: bool = False,
) -> SaveResult:  # fmt: skip
    """Set the status (paused or completed), bring title and summary up to date, and commit (`amend`: see `committing`).

    Raises DamagedData if Git LFS has not fetched the conversation.
    """
    session = named_store.store.get(session_id)
    damage_note(
        StoredConversation(named_store, session)
    )  # raises if nothing of it is here: it would be saved without messages
    # Everything is noted before the commit: nothing may be written after it.
    change = Change(status=status, force=force, extra=pausing.saved(session).extra)
    refresh(change, session, named_store.store)
    session = named_store.store.update(session_id, change)
    done = CommitResult(nothing_new=True)
    if commit:
        session, done = committing.commit_session(named_store, session, amend=amend)
    masked = count_masked(named_store.store.read(session_id)) if commit else {}
    return SaveResult(session=session, stopped_at=session.summary, commit=done, masked=masked)


def pause(conversation: StoredConversation, *, commit: bool) -> SaveResult:
    """Save and pause a conversation; one in a workspace is committed."""
    return save(
        conversation.named_store,
        conversation.session.id,
        PAUSED,
        commit=commit and conversation.named_store.kind == "workspace",
    )


def refresh(change: Change, session: Session, store: Store) -> None:
    """Set a missing title, and the summary unless the one that an agent, a tool or a person wrote still covers it."""
    if not session.message_count:
        return
    messages = StoredThread(store, session.id)
    if not session.title or (is_poor_title(session.title) and not is_titled_by_user(session)):
        change.title = best_title(session.title, title(messages))
    by, covers = session.summary_by, session.summary_covers
    if session.summary and not by:
        # Another program wrote it: it stands for what was said until then.
        by, covers = change.summary_by, change.summary_covers = BY_OTHER, covers or session.line_count
    if not session.summary or by == BY_TEXT or _went_on_since(store, session.id, covers):
        change.summary, change.summary_by = summarise(messages, leave_out=pausing.wants_to_pause), BY_TEXT
        change.summary_covers = session.line_count
        if session.extra.get(DETAILS):  # those of an agent, which are as old as its summary was
            change.extra = {**(change.extra or {}), DETAILS: {}}


def _went_on_since(store: Store, session_id: str, covers: int) -> bool:
    """Whether the talk went on from this message on: the user said something, or the agent did more than to answer.

    The agent's answer in which it saved the conversation is covered: one text after the call. Our own commands and a
    goodbye are not part of the talk.
    """
    answers, is_saved = 0, False
    for one in StoredThread(store, session_id):
        if one.seq < covers:
            continue
        text = text_of(one).strip()
        if one.role == USER and text and not only_asks([one]) and not pausing.wants_to_pause(text):
            return True
        if one.role == ASSISTANT and _saves(one):
            answers, is_saved = answers if is_saved else 0, True  # what the agent did before, it knew then
        elif one.role == ASSISTANT:
            answers += 2 if one.parts_of(TOOL_CALL) else bool(text)
    return answers > 1


def _saves(message: Message) -> bool:
    """Whether an agent hands over what it says of the conversation in this message."""
    return any(_SAVING.search(f"{call.name} {call.input}"[:2_000]) for call in message.parts_of(TOOL_CALL))


def save_grown(grown: Iterable[tuple[NamedStore, str]], settings_of: Callable[[str], Settings]) -> list[str]:
    """Save conversations that an import has extended while they were not active; return notes for the user.

    They keep their status. An active one is saved when its chat ends. Each workspace uses its own settings.
    """
    notes = []
    for named_store, session_id in grown:
        try:
            status = named_store.store.peek(session_id).status
            if status == ACTIVE or named_store.kind != "workspace":
                continue
            saved = save(named_store, session_id, status, commit=settings_of(named_store.root).workspace.commit)
        except (CortextError, OSError) as error:
            notes.append(f"{session_id} could not be saved: {error}")
            continue
        if saved.commit.problem and Git(named_store.root).is_repository():
            notes.append(f"{session_id} is saved, but not committed to git yet: {saved.commit.problem}")
        notes += [saved.commit.note] if saved.commit.note else []
    return notes


def active(named_store: NamedStore) -> Session:
    """Return the active conversation here: the one that was last active. Raises NotFound if there is none."""
    sessions = [session for session in named_store.store.sessions() if session.status == ACTIVE]
    if not sessions:
        raise NotFound("no conversation is active here", hint="list them with `cortext list --here`")
    return max(sessions, key=lambda session: session.last_active)


def confirmation(saved: SaveResult) -> str:
    """Return what the user reads after a stop."""
    session = saved.session
    state = "completed" if session.status == COMPLETED else "paused"
    lines = [
        "Session saved.",
        "",
        f'Conversation "{session.title or session.id}" has been {state}.',
        f"To reopen it: cortext resume {session.id} --force"
        if session.status == COMPLETED
        else "You can continue later with /workspace.resume",
    ]
    if saved.stopped_at:
        lines += ["", f"Summary: {saved.stopped_at}"]
    if saved.masked:
        lines += ["", f"Masked, and so not in git: {kinds(saved.masked)}."]
    if saved.commit.note:
        lines += ["", f"{saved.commit.note}."]
    if saved.commit.problem:
        lines += ["", f"Not committed to git: {saved.commit.problem}. Nothing is lost; {saved.commit.hint}."]
    return "\n".join(lines)


class PrunePlan(msgspec.Struct, kw_only=True):
    """What would move: the messages below `before`; and the summary that covers them."""

    before: int
    to_archive: int
    to_keep: int
    summary: str


def plan_prune(conversation: StoredConversation, keep: int) -> PrunePlan:
    """Plan to archive the messages older than the newest `keep`, with a summary of them."""
    messages = list(conversation.store.read(conversation.session.id))
    older = messages[: max(0, len(messages) - keep)]
    if not older:
        return PrunePlan(before=0, to_archive=0, to_keep=len(messages), summary="")
    # The agent's own summary comes first: it knows the reasons. The one made from the text adds what it left out.
    existing = conversation.session.summary if conversation.session.summary_by != BY_TEXT else ""
    of_text = summarise(thread(older))
    summary = f"{existing}\n\n{of_text}" if existing and of_text not in existing else existing or of_text
    return PrunePlan(
        before=older[-1].seq + 1, to_archive=len(older), to_keep=len(messages) - len(older), summary=summary
    )


def prune(conversation: StoredConversation, plan: PrunePlan) -> int:
    """Write the summary first, then move; return how many messages moved."""
    store = conversation.store
    if not isinstance(store, Compacts):
        raise UsageError(f"sessions of {conversation.named_store.label} cannot be pruned", kept="it is unchanged")
    store.update(
        conversation.session.id,
        Change(
            summary=plan.summary,
            summary_covers=plan.before,
            summary_by=conversation.session.summary_by or (BY_OTHER if conversation.session.summary else BY_TEXT),
        ),
    )
    return store.compact(conversation.session.id, plan.before)
