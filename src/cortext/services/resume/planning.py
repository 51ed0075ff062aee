"""The plan of a resume in an AI tool, with everything a person should know before: nothing is done yet.

The tool's own session is used if it still contains exactly this conversation; our copy is put back if the tool has lost
it; otherwise a new native session is written. The model gets the conversation's command, in the tool's system prompt
if it takes one, and the context block; the receipt says what is carried over and what cannot be.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from mmap import ACCESS_READ, mmap

import msgspec

from cortext.index.catalogue import Entry
from cortext.io import durable
from cortext.model import tokens
from cortext.model.asides import with_asides
from cortext.model.message import THINKING, TOOL_CALL, Message, instructions_of
from cortext.model.session import Session
from cortext.model.threads import thread
from cortext.safety.framing import BEGIN, END, control_disarmed
from cortext.safety.secrets.masking import mask
from cortext.services.capture.copies import copies_of, refusal_of
from cortext.services.library.stores import StoredConversation
from cortext.services.projects.git import Git
from cortext.services.resume.history import newest_that_fit, size_of
from cortext.services.resume.moved import place_of
from cortext.services.resume.new_session import SILENT, for_new_session, safe_messages
from cortext.services.resume.notes import differences, notes_on, up_to_date
from cortext.services.resume.packet import (
    FACTS_OF,
    MOST_FACTS,
    begun_block,
    block_data,
    block_instructions,
    context_block,
    facts,
)
from cortext.services.resume.receipt import MASKED, Receipt, count_notes, count_secrets, receipt_of
from cortext.services.text.for_models import SHORTENED, body
from cortext.services.workspace.registry import command_text, named_command_file
from cortext.tools.base import (
    Instructs,
    NativeWriter,
    Transcript,
    Withheld,
    Written,
    reads_named_files,
    user_speaks_first,
)

OWN = "its own session, as it is"
PUT_BACK = "its own session, put back from our copy"
NEW = "a new native session"
BEGUN = "a new session that begins with the command and the context block"
TOPICLESS = "(the topic of this conversation)"  # for the title, in places that others can read
_LONGEST_INSTRUCTIONS = 100_000  # bytes: some tools take them only as an argument of the program


def tool_to_continue_in(
    named: str,
    own: str,
    setting: str,
    installed: Callable[[], Sequence[NativeWriter]],
    choose: Callable[[list[str]], str],
) -> str:
    """Return the tool that is named, else the conversation's own, else that of the setting `resume.tool`.

    `own` is empty if it cannot be resumed in. Without any of these it is the only one installed here; of several, or
    none, `choose` decides.
    """
    if name := named or own or setting:
        return name
    here = [tool.name for tool in installed()]
    return here[0] if len(here) == 1 else choose(here)


class _Own:
    """What of a tool's own session can be used; if withheld is None, only a new one can. `why` is for the user."""

    def __init__(self, how: str = NEW, key: str = "", withheld: Withheld | None = None, why: str = "") -> None:
        self.how, self.key, self.withheld, self.why = how, key, withheld, why
        self.copy = ""  # the copy of ours to put back
        self.path = ""  # the tool's file, or that copy


class Plan(msgspec.Struct, kw_only=True):
    """What a resume will do; nothing has been done yet.

    `prompt` is what the conversation says to the model: in a new session its first message, else the first prompt.
    """

    session: Session
    project: str
    carried: list[Message]
    prompt: str
    instructions: str = ""  # the command's text, for the tool's system prompt
    receipt: Receipt
    how: str
    key: str = ""
    copy: str = ""  # the copy of ours that is put back
    kept: set[str] = set()  # the ids of the messages that the tool sends from its own session
    warnings: list[str] = []
    written: Written | None = None  # after carry_out: what is new in the tool's store
    before: Entry | None = None  # after carry_out: what was known about that session of the tool


def plan_for(
    conversation: StoredConversation,
    tool: NativeWriter,
    *,
    budget: int,
    rewrite: bool = False,
    missing: list[str] | None = None,
) -> Plan:
    """Return the plan and its warnings; nothing is changed. `missing` are notes about what could not be captured."""
    session = conversation.session
    command = command_text(conversation.root, session.type, session.title)
    topicless = command_text(conversation.root, session.type, TOPICLESS)
    plan = make_plan(conversation, tool, command=command, topicless=topicless, budget=budget, rewrite=rewrite)
    plan.receipt.differs = differences(session, plan.project, tool, plan.carried)
    plan.warnings += [*(missing or ()), *warnings_for(conversation, tool, plan)]
    return plan


def caught_up_plan(
    conversation: StoredConversation,
    tool: NativeWriter,
    caught_up: Callable[[StoredConversation], StoredConversation],
    *,
    budget: int,
) -> Plan:
    """Return the plan for the conversation with everything its tool has written by now."""
    current, missing = up_to_date(conversation, caught_up)
    return plan_for(current, tool, budget=budget, missing=missing)


def make_plan(
    conversation: StoredConversation,
    tool: NativeWriter,
    *,
    command: str = "",
    topicless: str = "",
    budget: int = 120_000,
    project: str = "",
    rewrite: bool = False,
) -> Plan:
    """Compare the conversation with what the tool has, and decide. `rewrite`: do not use the tool's own session.

    `topicless` is the command without the conversation's title, for places that others can read.
    """
    place = place_of(conversation, project)
    session, project, history = place.shown(conversation.session), place.folder, place.history(conversation)
    history.expect(budget, before=FACTS_OF)
    fitting, shortened = newest_that_fit(history, budget)
    earlier = len(history) - len(fitting)
    carried, secrets = safe_messages(fitting)
    is_whole = not earlier and not shortened
    before = "" if is_whole else facts(history, earlier, MOST_FACTS, known="\n".join(map(body, carried)))
    receipt = receipt_of(session, history, carried, tool.name)
    count_secrets(receipt, secrets)
    if shortened:
        receipt.changed[SHORTENED] = shortened
    own = _Own() if rewrite or not is_whole else _own_session(conversation, tool, carried, project)
    is_own = bool(carried) and own.withheld is not None
    instructions = _instructions(tool, topicless or command)
    if not carried:
        own.how, block = BEGUN, begun_block(session)
        prompt = _first_prompt("" if instructions else command, control_disarmed(block, tool.name)[0])
    elif is_own:
        if _holds(own.path, topicless):
            command = ""
        elif tool.prompt_is_public:
            command = _public_command(conversation, tool, topicless, project)
        prompt, instructions = _prompt_of_own(tool, session, len(history), receipt.branches, command, instructions)
    else:
        block = context_block(session, messages=len(history), before=before, branches=receipt.branches)
        prompt = _first_prompt("" if instructions else command, control_disarmed(block, tool.name)[0])
    receipt.tokens = _size(carried) + tokens.estimate(instructions) + tokens.estimate(prompt)
    kept: set[str] = set()
    if is_own and own.withheld is not None:
        kept = _count_own(receipt, carried, own.withheld)
    elif carried:
        carried, _ = for_new_session(carried, conversation, tool, receipt)
        count_notes(receipt, session)
        place.count(receipt, carried)
    return Plan(
        session=session,
        project=project,
        carried=carried,
        prompt=prompt,
        instructions=instructions,
        receipt=receipt,
        how=own.how,
        key=own.key,
        copy=own.copy,
        kept=kept,
        warnings=[note for note in (place.note, own.why) if note],
    )


def _first_prompt(command: str, block: str) -> str:
    return mask(f"{command.strip()}\n\n{block}" if command.strip() else block).text


def _holds(path: str, command: str) -> bool:
    """Whether a tool's own file contains every line of the command's text, apart from the topic."""
    lines = [mask(line.strip()).text for line in command.splitlines() if line.strip() and TOPICLESS not in line]
    try:
        with open(path, "rb", opener=durable.plain_file) as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
            return bool(lines) and all(
                any(data.find(json.dumps(line, ensure_ascii=escaped)[1:-1].encode()) >= 0 for escaped in (False, True))
                for line in lines
            )
    except (OSError, ValueError):  # no file, or an empty one
        return False


def _public_command(conversation: StoredConversation, tool: NativeWriter, topicless: str, project: str) -> str:
    """Return the command for a prompt that everybody can read: its file, if the tool then reads that, or its text."""
    named = named_command_file(conversation.root, conversation.session.type, project) if reads_named_files(tool) else ""
    # A file that git ignores would be left out.
    return f"@{named}" if named and not Git(project).ignored([named]) else topicless


def _prompt_of_own(
    tool: NativeWriter, session: Session, messages: int, branches: str, command: str, instructions: str
) -> tuple[str, str]:
    """Return the first prompt and the instructions for a tool's own session.

    The prompt is a message of the user's on the screen there, so it has as few lines as can be: what is always the same
    is in the instructions, if the tool takes any, and what the turns show is left out, as are names if it is public.
    """
    described = msgspec.structs.replace(session, extra={})
    data = block_data(described, messages=messages, nameless=tool.prompt_is_public, branches=branches)
    expected = " ".join(block_instructions(native=True))
    lines = [line for line in data if line.strip()] + ([] if instructions else [expected])
    block, _ = control_disarmed("\n".join([BEGIN, *lines, END]), tool.name)
    if instructions:
        return "" if user_speaks_first(tool) else _first_prompt("", block), f"{instructions}\n\n{expected}"
    return "" if user_speaks_first(tool) else _first_prompt(command, block), ""


def _instructions(tool: NativeWriter, command: str) -> str:
    """Return the command's text for the tool's system prompt; empty if it takes none, or none of this length."""
    text = mask(command.strip()).text if isinstance(tool, Instructs) else ""
    return text if len(text.encode("utf-8", "replace")) <= _LONGEST_INSTRUCTIONS else ""


def _count_own(receipt: Receipt, carried: Sequence[Message], withheld: Withheld) -> set[str]:
    """Add to the receipt what the tool sends to the model from its own session; return the ids of these messages."""
    sent = []
    for message in carried:
        names = (message.id, message.id.partition("/")[0])
        reason = next((kind for kind, ids in withheld.messages.items() if any(name in ids for name in names)), "")
        reason = reason or (SILENT if _is_silent(message) else "")
        if reason:
            receipt.left_out[reason] = receipt.left_out.get(reason, 0) + 1
        else:
            sent.append(message)
    receipt.messages = len(sent)
    receipt.tool_calls = sum(len(message.parts_of(TOOL_CALL)) for message in sent)
    receipt.tokens -= _size(carried) - _size(sent)
    receipt.changed |= withheld.changed
    receipt.changed = {kind: count for kind, count in receipt.changed.items() if not kind.startswith(MASKED)}
    return {message.id for message in sent}


def _is_silent(message: Message) -> bool:
    """Whether a message contains nothing that any tool would send: no text, no call, no result."""
    return not message.content.strip() and all(part.type == THINKING for part in message.parts or ())


def _size(messages: Sequence[Message]) -> int:
    return sum(map(size_of, messages))


def _own_session(
    conversation: StoredConversation, tool: NativeWriter, messages: Sequence[Message], project: str
) -> _Own:
    """Check whether the tool itself, or our copy of its file, contains exactly these messages, for this folder.

    The tools find a session only in the folder that it was held in; a project may have been moved or cloned since. If
    it is unknown what the model would get of the session, it is not used either.
    """
    session = conversation.session
    key = session.origin.session_id
    if session.origin.tool != tool.name or not key:
        return _Own()
    wanted = [message.id for message in messages]
    for transcript in tool.transcripts(project):
        if transcript.key == key:
            return _as_it_is(OWN, tool, transcript, wanted)

    held_in = session.extra.get("project")
    if isinstance(held_in, str) and held_in and os.path.realpath(held_in) != os.path.realpath(project):
        return _Own()
    for copy in copies_of(session.path):
        kept = tool.transcript_at(copy)
        found_own = _as_it_is(PUT_BACK, tool, kept, wanted) if kept is not None else _Own()
        if found_own.how == PUT_BACK or found_own.why:
            found_own.copy = copy
            return found_own
    return _Own()


def _as_it_is(how: str, tool: NativeWriter, transcript: Transcript, wanted: list[str]) -> _Own:
    """Return the tool's own session if it contains these messages and is understood; else a new one."""
    read = list(tool.read(transcript))
    # Earlier versions stored no instructions, and our commands as part of the talk.
    if not _are(thread(read), wanted) and not _are(thread(with_asides(read)), wanted):
        return _Own()
    if refusal := refusal_of(tool, transcript):
        return _Own(
            why=f"{tool.title} cannot continue its own session: {refusal}; the new one carries the messages themselves"
        )
    withheld = tool.withheld(transcript)
    if withheld is None:
        return _Own(
            why=f"{tool.title} compacted its own session and would send a summary instead of the earlier messages; "
            "the new one carries the messages themselves"
        )
    own = _Own(how, transcript.key, withheld)
    own.path = transcript.path
    return own


def _are(messages: Sequence[Message], wanted: list[str]) -> bool:
    """Whether the messages have these ids, apart from instructions that are not among them."""
    ids = set(wanted)
    return [message.id for message in messages if message.id in ids or not instructions_of(message)] == wanted


def warnings_for(conversation: StoredConversation, tool: NativeWriter, plan: Plan) -> list[str]:
    """Return what the user should know before continuing: see `notes_on`, and what the tool's own session lacks."""
    warnings = notes_on(conversation)
    if plan.how in (OWN, PUT_BACK) and (plan.receipt.changed or set(plan.receipt.left_out) - {SILENT}):
        warnings.append(
            f"this is what {tool.title} sends from its own session; --rewrite carries everything over into a new one"
        )
    if plan.how in (OWN, PUT_BACK) and user_speaks_first(tool):
        missing_there = "context block" if plan.instructions else "conversation's command and the context block"
        warnings.append(
            f"{tool.title} takes no first prompt, and its own session stays as it is: the model does not get the "
            f"{missing_there}; --rewrite writes a new session with it"
        )
    return warnings
