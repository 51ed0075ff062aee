"""Resuming a conversation of one real program in another, and comparing the receipt with what the model received."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from cortext.io import inside
from cortext.model.message import ASSISTANT, ATTACHMENT, TOOL_CALL, TOOL_RESULT, USER, Message, Part
from cortext.model.session import Origin, Session
from cortext.model.threads import thread
from cortext.model.turns import Difference
from cortext.safety.framing import BEGIN, END
from cortext.services.library.resolve import with_exact_id
from cortext.services.library.stores import StoredConversation
from cortext.services.projects.workspaces import remember_workspace
from cortext.services.resume.planning import NEW, Plan
from cortext.services.resume.receipt import NOTES
from cortext.services.workspace import registry
from cortext.services.workspace.registry import ConversationType
from cortext.wiring.stores import Stores
from tests.support.desk import Desk
from tests.support.model_server import Reply, Request, Turn

COMMAND = "# A way to talk\n\nTopic: Herons\n\nBe brief, and never guess."
SUMMARY = "A number was noted and a note read."
NEXT = "Tell me the number and what the note said."  # no question mark: in Gemini CLI it may open a help
ANSWER = "It was 4711, and the heron stands still."
TURN_SECONDS = 300.0  # on a loaded machine; most take two
PASTE = "\n".join(f"2026-11-02T08:00:{line % 60:02} heron {line} stands in the reeds, östlich" for line in range(600))

# The folder in a home with what cortext has kept.
DATA = Path(".local", "share", "cortext")

# The files that are read in the conversation, and what the result of reading each contains.
FILES = {"note.txt": "the heron stands still", "count.txt": "seventeen", "missing.txt": "No such file"}


class Said(NamedTuple):
    """One text of a conversation, with the role of its speaker."""

    role: str
    text: str


# What is around the conversation in the request: the context block before it, and the prompt.
BLOCK = [Said(USER, text) for text in (BEGIN, SUMMARY, END)]
OPENING = [Said(USER, COMMAND), *BLOCK]
CLOSING = [Said(USER, NEXT)]

_SPACES_AT_END = re.compile(r" +$", re.MULTILINE)
# The labels of a call and of a result for a program without structured calls; the id is in both.
_LABELLED = re.compile(r"^(?=\[(?:call of|result of the call of) )", re.MULTILINE)
_LABEL = re.compile(r"\[(?P<result>result of the )?call of .*? \((?P<id>[^\s()]+)\)")


class Conversation(NamedTuple):
    """A conversation that was held in a program and imported: another home gets it with a copy of DATA."""

    home: Path
    project: Path
    said: list[Said]


class Outcome(msgspec.Struct, kw_only=True):
    """What crossed from one program to another, by the receipt, and where the request differs from it."""

    messages: int
    of_messages: int
    calls: int
    of_calls: int
    left_out: dict[str, int]  # of the messages that were said
    changed: dict[str, int]
    problems: list[str]
    lost: list[str] = []  # what the source's program itself had lost before
    notes: int = 0  # of the source's program to its model, which the target's makes itself


def hold(desk: Desk, name: str, project: Path) -> list[Said]:
    """Hold a conversation in a program with everything that is difficult to carry over; return its texts.

    A paste of 30 kB, two calls at once, a call that fails, a text that begins with a slash, a named file, and Unicode.
    A program without structured calls answers without them.
    """
    tool = desk.tools[name]
    (project / "note.txt").write_text("the heron stands still\n", encoding="utf-8")
    (project / "count.txt").write_text("seventeen\n", encoding="utf-8")
    has_calls = bool(tool.shell_tool)
    two = (*tool.shell("cat note.txt").tool_calls, *tool.shell("cat count.txt").tool_calls) if has_calls else ()
    failing = tool.shell("cat missing.txt").tool_calls if has_calls else ()
    script: list[tuple[str, list[Reply]]] = [
        (f"First words to {name}: remember the number 4711. 覚えて 🦩", [Reply(text="Gern gemerkt: 4711. 🦩")]),
        (f"Here is the log.\n{PASTE}", [Reply(text="It has 600 lines.")]),
        (
            "Read both notes for me, and the missing one.",
            [
                *_calling("Let me look.", two),
                *_calling("I will try the other.", failing),
                Reply(text="The heron stands still; seventeen; and there is no such file."),
            ],
        ),
        ("/etc/hosts is a path and not a command.", [Reply(text="So it is.")]),
        ("Please compare @note.txt with what you read.", [Reply(text="It is the same.")]),
    ]
    said: list[Said] = []
    for prompt, replies in script:
        if _turn(desk, name, project, prompt, replies, key=tool.sessions()[-1] if said else None):
            said += [Said(USER, prompt), *(Said(ASSISTANT, reply.text or "") for reply in replies)]
    return said


def _calling(text: str, calls: tuple[object, ...]) -> list[Reply]:
    return [Reply(text=text, tool_calls=calls)] if calls else []  # type: ignore[arg-type]


def _turn(desk: Desk, name: str, project: Path, prompt: str, replies: Sequence[Reply], key: str | None) -> bool:
    """Play one turn. Return False if the program took the prompt for a command of its own and asked no model."""
    before = len(desk.server.turns)
    desk.server.push(*replies)
    done = desk.tools[name].run(prompt, cwd=project, resume=key, timeout=TURN_SECONDS)
    asked = any(prompt.splitlines()[0] in str(turn.texts()) for turn in desk.server.turns[before:])
    if not asked and prompt.startswith("/"):
        desk.server.drop_replies()
        return False
    assert done.returncode == 0 and asked, f"{name}: {prompt[:60]!r}: {done.stderr[-2000:] or done.stdout[-2000:]}"
    assert desk.server.pending == 0, f"{name} asked the model less often than expected after {prompt[:60]!r}"
    return True


def outcomes(desk: Desk, messages: Sequence[Message], *, may_lose: bool = False) -> list[Part]:
    """Return the results of the calls in a conversation that `hold` held, in the order of the calls.

    Two calls at once may end in any order. If the program may lose an output itself, only what the model received of it
    must have been kept.
    """
    calls = [part for message in messages for part in message.parts_of("tool_call")]
    results = {part.call_id: part for message in messages for part in message.parts_of("tool_result")}
    assert sorted(results) == sorted(part.id for part in calls)
    sent = [turn for request in desk.server.turns for turn in request.conversation if turn.kind == "tool_result"]
    for call, (file, words) in zip(calls, FILES.items(), strict=True):
        assert f"cat {file}" in str(call.input)
        received = any(turn.call_id == call.id and words in turn.text for turn in sent)
        assert words in results[call.id].output or (may_lose and not received), f"{file}: not kept"
    return [results[call.id] for call in calls]


def imported(desk: Desk, stores: Stores, name: str, project: Path) -> StoredConversation:
    """Import the conversation of a program and return it."""
    done = desk.cortext("import", "--from", name, cwd=project)
    assert done.code == 0, done.err
    rows = desk.cortext("list", "--tool", name, "--json", cwd=project).json
    found = [with_exact_id(stores.all(), row["id"])[0] for row in rows if not row["id"].startswith("pair-")]
    of_project = [item for item in found if item.session.extra.get("project") == str(project)]
    assert len(of_project) == 1, [item.session for item in found]
    return of_project[0]


def copied(conversation: StoredConversation, target: str) -> StoredConversation:
    """Copy a conversation into its project, which becomes a workspace, so that each pair starts with the original."""
    project = str(conversation.session.extra["project"])
    inside.write(project, ".workspace/commands/plan.md", COMMAND.replace("Herons", "{arguments}").encode())
    kind = ConversationType(command="/workspace.plan", command_file=".workspace/commands/plan.md")
    registry.save(project, registry.Registry(types={"plan": kind}))
    remember_workspace(project)
    workspace = Stores(project).all()[0]
    store = workspace.store
    name = f"pair-{conversation.session.origin.tool}-{target}-{os.urandom(3).hex()}"  # a test may be run twice
    store.create(
        Session(
            id=name,
            type="plan",
            title="Herons",
            summary=SUMMARY,
            status="paused",
            origin=Origin(tool=conversation.session.origin.tool),
            extra=conversation.session.extra,
        )
    )
    store.append(name, *thread(conversation.store.read(conversation.session.id)))
    return StoredConversation(workspace, store.get(name))


def compare(
    request: Request,
    plan: Plan,
    said: Sequence[Said],
    closing: Sequence[Said] = CLOSING,
    opening: Sequence[Said] = OPENING,
) -> Outcome:
    """Compare what the model received with the receipt, and with what was said in the source and is around it."""
    texts = [*opening, *said, *closing]
    receipt = plan.receipt
    of_calls = sum(len(message.parts_of(TOOL_CALL)) for message in plan.carried)
    as_text = receipt.changed.get(Difference.CALLS_AS_TEXT, 0)
    received = Received(request, is_own=plan.how != NEW)
    return Outcome(
        messages=receipt.messages,
        of_messages=receipt.of_messages,
        calls=receipt.tool_calls,
        of_calls=of_calls,
        left_out={kind: count for kind, count in receipt.left_out.items() if kind != NOTES},
        notes=receipt.left_out.get(NOTES, 0),
        changed={str(kind): count for kind, count in receipt.changed.items()},
        problems=[
            *_missing(received, texts),
            *_repeated(received, texts),
            *_uninstructed(request, plan.instructions),
            *_unsaid(received, said),
            *_miscounted(received, plan, receipt.messages),
            *_unpaired(request, receipt.tool_calls - as_text, is_own=plan.how != NEW),
            *_as_text(received, as_text),
            *_without_output(received, plan.carried),
        ],
        lost=[
            f"the output of 'cat {_file_read(call)}'"
            for call, output in _recorded(plan.carried)
            if not _has_words(call, output)
        ],
    )


class ReceivedCall(NamedTuple):
    """A tool call in a request, with the output that came with it; None if none did."""

    arguments: str
    output: str | None
    is_text: bool = False


class Received:
    """What a request contains of a conversation: what was said, and the calls, real ones or as labelled text.

    Aider keeps the lines of its own sessions with two spaces at the end, and sends them.
    """

    def __init__(self, request: Request, *, is_own: bool = False) -> None:
        texts = ((_role(turn), turn.text) for turn in request.conversation if turn.kind == "text")
        turns = [Said(role, _SPACES_AT_END.sub("", text) if is_own else text) for role, text in texts]
        self.texts = [turn for turn in turns if turn.role in (USER, ASSISTANT)]
        results = {turn.call_id: turn.text for turn in request.conversation if turn.kind == "tool_result"}
        calls = [turn for turn in request.conversation if turn.kind == "tool_call"]
        self.calls = [ReceivedCall(str(call.arguments), results.get(call.call_id)) for call in calls]
        self.calls += _calls_as_text([turn.text for turn in self.texts])

    def call(self, command: str) -> ReceivedCall | None:
        """Return the call of this command."""
        return next((call for call in self.calls if command in call.arguments), None)


def _role(turn: Turn) -> str:
    return {"model": ASSISTANT}.get(turn.role, turn.role)


def _calls_as_text(texts: Sequence[str]) -> list[ReceivedCall]:
    """Return the calls that were turned into text; the id in the labels of a call and of its result joins them."""
    calls: dict[str, str] = {}
    outputs: dict[str, str] = {}
    for text in texts:
        for section in _LABELLED.split(text)[1:]:
            label, _, body = section.partition("\n")
            found = _LABEL.match(label)
            if found:
                (outputs if found["result"] else calls)[found["id"]] = body
    return [ReceivedCall(arguments, outputs.get(key), True) for key, arguments in calls.items()]


def _missing(received: Received, said: Sequence[Said]) -> list[str]:
    """Return which of these texts, of which each is after the one before it, is missing or in another role."""
    texts = received.texts
    problems, position = [], 0
    for role, text in said:
        later = range(position, len(texts))
        index = next((index for index in later if text in texts[index].text and texts[index].role == role), None)
        if index is None:
            problems.append(f"not received as {role} after text {position}: {text[:60]!r}")
        else:
            position = index
    return problems


def _repeated(received: Received, said: Sequence[Said]) -> list[str]:
    """Return the texts that were received more often than they were said; the context block is known by its summary."""
    problems = []
    texts = [text for _, text in said if text not in (BEGIN, END)]
    for text in dict.fromkeys(texts):
        once = sum(other.count(text) for other in texts)
        times = sum(turn.text.count(text) for turn in received.texts)
        if times > once:
            problems.append(f"received {times} times: {text[:60]!r}")
    return problems


def _uninstructed(request: Request, instructions: str) -> list[str]:
    """Return whether the command's text is not exactly once in the request, and there outside of the conversation."""
    times = sum(text.count(instructions) for text in _strings(request.body)) if instructions else 0
    spoken = sum(instructions in turn.text for turn in request.conversation if _role(turn) in (USER, ASSISTANT))
    if instructions and (times, spoken) != (1, 0):
        return [f"the command's text was received {times} times, {spoken} of them as a message"]
    return []


def _strings(value: object) -> Iterator[str]:
    """Yield every text in a request."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, Sequence):
        for item in value:
            yield from _strings(item)


def _unsaid(received: Received, said: Sequence[Said]) -> list[str]:
    """Return what the assistant did not say between the first words and the last; programs add their own outside."""
    first, last = (
        next((index for index, turn in enumerate(received.texts) if text in turn.text), 0)
        for text in (said[0].text, said[-1].text)
    )
    own = [text for role, text in said if role == ASSISTANT]
    problems = []
    for turn in received.texts[first:last]:
        is_known = any(text in turn.text for text in own) or _LABELLED.match(turn.text.lstrip())
        if turn.role == ASSISTANT and not is_known:
            problems.append(f"received as {ASSISTANT}, but never said: {turn.text[:60]!r}")
    return problems


def _miscounted(received: Received, plan: Plan, expected: int) -> list[str]:
    """Return whether another number of messages was received than the receipt has."""
    commands = {part.id: _file_read(part) for message in plan.carried for part in message.parts_of(TOOL_CALL)}
    arrives = _arrived if plan.how == NEW else _arrived_of_own
    arrived = sum(arrives(received, message, commands) for message in plan.carried)
    return [] if arrived == expected else [f"{arrived} messages were received, {expected} are in the receipt"]


def _arrived(received: Received, message: Message, commands: Mapping[str, str]) -> bool:
    """Whether the words of a message were received; of one without words, its calls or results."""
    if words := message.content.strip():
        role = ASSISTANT if message.role == ASSISTANT else USER
        return any(turn.role == role and words in turn.text for turn in received.texts)
    calls = [received.call(f"cat {commands[part.id]}") for part in message.parts_of(TOOL_CALL)]
    asked = [received.call(f"cat {commands.get(part.call_id)}") for part in message.parts_of(TOOL_RESULT)]
    answered = [call if call and call.output is not None else None for call in asked]
    return bool([*calls, *answered]) and all([*calls, *answered])


def _arrived_of_own(received: Received, message: Message, commands: Mapping[str, str]) -> bool:
    """The same for a program's own session: it sends a named file in several texts, or with other words around it."""
    is_file = ATTACHMENT in (message.extra or {})
    words = "".join((message.content.partition("\n")[2] if is_file else message.content).split())
    role = ASSISTANT if message.role == ASSISTANT else USER
    sent = "".join(turn.text for turn in received.texts if turn.role == role)
    return words in "".join(sent.split()) if words else _arrived(received, message, commands)


def _file_read(call: Part) -> str:
    """Return the file that a call reads."""
    return next(file for file in FILES if f"cat {file}" in str(call.input))


def _unpaired(request: Request, expected: int, *, is_own: bool) -> list[str]:
    """Return how the calls in a request differ from the expected number, and which have no result of their own.

    Gemini CLI sends a result of its own session several times, so there it only has to be sent.
    """
    calls = [turn.call_id for turn in request.conversation if turn.kind == "tool_call"]
    results = [turn.call_id for turn in request.conversation if turn.kind == "tool_result"]
    problems = [] if len(calls) == expected else [f"{len(calls)} calls were received, {expected} are in the receipt"]
    if sorted(set(results) if is_own else results) != sorted(calls):
        problems.append(f"results for {results} were received, calls {calls}")
    return problems


def _as_text(received: Received, expected: int) -> list[str]:
    """Return whether another number of calls was received as text, each with its result, than the receipt has."""
    number = sum(call.is_text and call.output is not None for call in received.calls)
    return [] if number == expected else [f"{number} calls were received as text, {expected} are in the receipt"]


def _without_output(received: Received, carried: Sequence[Message]) -> list[str]:
    """Return the calls whose recorded output did not arrive with them, as their result or as text with their id."""
    problems = []
    for file in (_file_read(call) for call, output in _recorded(carried) if _has_words(call, output)):
        arrived = received.call(f"cat {file}")
        if arrived is None or FILES[file] not in (arrived.output or ""):
            problems.append(f"the output of 'cat {file}' was not received with its call")
    return problems


def _recorded(carried: Sequence[Message]) -> list[tuple[Part, str]]:
    """Return the calls, each with the output that was recorded for it."""
    outputs = {part.call_id: part.output for message in carried for part in message.parts_of(TOOL_RESULT)}
    return [(call, outputs.get(call.id, "")) for message in carried for call in message.parts_of(TOOL_CALL)]


def _has_words(call: Part, output: str) -> bool:
    """Whether a recorded output is that of the command; a program may lose it (docs/record-kinds.md)."""
    return FILES[_file_read(call)] in output
