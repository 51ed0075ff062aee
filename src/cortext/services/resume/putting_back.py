"""Putting a conversation back into the store of an AI tool, so that the tool's own list and resume have it again.

If the tool has lost its session and our copy of it is whole and contains the whole conversation, the copy is restored
byte for byte. Otherwise a new session is written from our messages: also if the tool still has the session but it is
damaged, because a file of the tool is never changed. Of a conversation that no model could take, the new session has
the newest messages: writing it takes bounded memory, and the tool can open it.
"""

from __future__ import annotations

import os
from collections.abc import Set as AbstractSet

import msgspec

from cortext.errors import UsageError
from cortext.model.message import TOOL_CALL, attachments_in
from cortext.safety.framing import field
from cortext.safety.secrets.masking import mask
from cortext.services.capture import copies, first_turns
from cortext.services.capture.capture import Capture
from cortext.services.library.stores import StoredConversation
from cortext.services.projects.projects import project_of
from cortext.services.projects.repository import is_below
from cortext.services.resume.history import newest_that_fit, size_of
from cortext.services.resume.moved import Place, place_of
from cortext.services.resume.new_session import for_new_session, safe_messages
from cortext.services.resume.receipt import Receipt, count_secrets
from cortext.services.text.for_models import SHORTENED
from cortext.tools.base import NativeWriter

THERE = "nothing to do: it still has the whole conversation"
COPY = "its own session, put back byte for byte from our copy"
OLDER = "older message"
MOST_TOKENS = 2_000_000  # more than any model takes
WRITTEN = "a valid session, written from our messages"


class PutBack(msgspec.Struct, kw_only=True):
    """What was put back, or would be. `why` says why it is not the tool's own session byte for byte."""

    session: str
    tool: str
    project: str
    how: str
    why: str = ""
    note: str = ""  # what the user should know about the folder
    key: str = ""  # the tool's id of the session; empty if it is not known yet
    receipt: Receipt


def put_back(
    conversation: StoredConversation, tool: NativeWriter, capture: Capture, *, dry_run: bool = False
) -> PutBack:
    """Put a conversation back into a tool's store. The session of ours is not changed."""
    place = _place_for(conversation, tool)
    session, project = place.shown(conversation.session), place.folder
    history = place.history(conversation)
    if not len(history):
        raise UsageError(f"{session.id} has no messages to put back", kept="nothing was changed")
    receipt = Receipt(session=session.id, target=tool.name, messages=len(history), of_messages=len(history))
    wanted: set[str] = set()
    for message in history.read():  # one by one: a copy is put back without holding the conversation in memory
        wanted.add(message.id)
        receipt.tool_calls += len(message.parts_of(TOOL_CALL))
        receipt.attachments += attachments_in([message])
        receipt.tokens += size_of(message)
    chosen = newest_that_fit(history, MOST_TOKENS) if receipt.tokens > MOST_TOKENS else None
    lean = {message.id for message in chosen.messages} if chosen else wanted
    how, why, key, copy = _choose(conversation, tool, capture, project, wanted, lean)
    if how == COPY and not dry_run:
        try:
            key = copies.put_back(tool, copy, project=project, wanted=wanted)
        except copies.NotPutBack as error:
            how, why, key = WRITTEN, error.message, ""
    done = PutBack(
        session=session.id, tool=tool.name, project=project, how=how, why=why, note=place.note, key=key, receipt=receipt
    )
    if how != WRITTEN:
        if how == COPY and not dry_run:
            first_turns.forget_of(tool.name, conversation.root, session.id)
        return done
    messages, secrets = safe_messages(chosen.messages if chosen else history.messages())
    count_secrets(receipt, secrets)
    messages, written = for_new_session(messages, conversation, tool, receipt)
    receipt.tool_calls = written.tool_calls
    receipt.tokens = sum(map(size_of, messages))
    place.count(receipt, messages)
    if chosen:
        receipt.left_out[OLDER] = len(history) - len(messages)
        if chosen.shortened:
            receipt.changed[SHORTENED] = chosen.shortened
        done.note = "; ".join(filter(None, (done.note, "it is too long to be written whole: its newest messages are")))
    if not dry_run:
        # Never under its old id: the tool may remember where the file of that one was.
        done.key = tool.write(messages, project=project, title=field(mask(session.title).text)).key
        # The next import finds it in the tool's store and must recognise it as this conversation.
        capture.attach(conversation.named_store, session.id, tool.name, done.key)
        first_turns.forget_of(tool.name, conversation.root, session.id)
    return done


def _place_for(conversation: StoredConversation, tool: NativeWriter) -> Place:
    """Return the folder that the tool's own list shows it in: where it was held there, if that folder still exists.

    What a workspace's metadata name as that folder may be a stranger's words: only the workspace itself counts.
    """
    held = project_of(conversation.session)
    is_there = conversation.session.origin.tool == tool.name and os.path.isdir(held)
    if conversation.named_store.kind == "workspace":
        is_there = is_there and is_below(os.path.realpath(held), os.path.realpath(conversation.root))
    return place_of(conversation, held if is_there else "")


def _choose(
    conversation: StoredConversation,
    tool: NativeWriter,
    capture: Capture,
    project: str,
    wanted: AbstractSet[str],
    lean: AbstractSet[str],
) -> tuple[str, str, str, str]:
    """Return what to do, why if it is not the copy, the id of the session that is there or is put back, and the copy.

    `wanted` are the ids of the messages, `lean` those in a session that we would write.
    """
    session = conversation.session
    own = session.origin.session_id if session.origin.tool == tool.name else ""
    ours = (tool.name, conversation.root, session.id)
    entries = capture.catalogue.all().values()
    keys = {own, *(entry.key for entry in entries if (entry.tool, entry.root, entry.session_id) == ours)}
    why = "" if own else f"it was not held in {tool.title}"
    for transcript in tool.transcripts(project):
        if transcript.key in keys:
            ids, fault = copies.contents(tool, transcript)
            if not fault and (wanted if transcript.key == own else lean) <= ids:
                return THERE, "", transcript.key, ""
            if ids and transcript.key == own:
                why = f"{tool.title} still has it, but {fault or 'without its newest messages'}"
    held = project_of(session)
    if not why and held and os.path.realpath(held) != os.path.realpath(project):
        why = f"it was held in {held}"
    copy, missing = ("", why) if why else copies.whole_copy(tool, session.path, wanted)
    return (COPY, "", own, copy) if copy else (WRITTEN, missing, "", "")
