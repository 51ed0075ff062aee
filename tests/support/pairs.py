"""Resuming a conversation of one real program in another, and comparing the receipt with what the model received."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from cortext.model.message import ASSISTANT, TOOL_CALL, USER, Message, Part, thread
from cortext.model.session import Origin, Session
from cortext.model.turns import Change
from cortext.safety.framing import GO_ON
from cortext.services.library.resolve import with_exact_id
from cortext.services.library.stores import Found
from cortext.services.resume.handover import Plan, carry_out, make_plan
from cortext.wiring import tools
from cortext.wiring.stores import Stores
from tests.support.desk import Desk
from tests.support.model_server import Reply, Request, Turn

COMMAND = "# A way to talk\n\nTopic: herons\n\nBe brief, and never guess."
SUMMARY = "A number was noted and a note read."
NEXT = "What was the number, and what did the note say?"
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
    left_out: dict[str, int]
    changed: dict[str, int]
    problems: list[str]


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
        (f"First words to {name}: remember the number 4711.", [Reply(text="Noted: 4711.")]),
        (f"Here is the log.\n{PASTE}", [Reply(text="It has 600 lines.")]),
        ("Read both notes for me.", [*_calling("Let me look.", two), Reply(text="The heron stands still; seventeen.")]),
        ("And the missing one?", [*_calling("I will try.", failing), Reply(text="There is no such file.")]),
        ("/etc/hosts is a path and not a command.", [Reply(text="So it is.")]),
        ("Please compare @note.txt with what you read.", [Reply(text="It is the same.")]),
        ("Und jetzt etwas Ungewöhnliches: 覚えて 🦩", [Reply(text="Gern.")]),
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


def imported(desk: Desk, stores: Stores, name: str, project: Path) -> Found:
    """Import the conversation of a program and return it."""
    done = desk.cortext("import", "--from", name, cwd=project)
    assert done.code == 0, done.err
    rows = desk.cortext("list", "--tool", name, "--json", cwd=project).json
    found = [with_exact_id(stores.all(), row["id"])[0] for row in rows if not row["id"].startswith("pair-")]
    of_project = [item for item in found if item.session.extra.get("project") == str(project)]
    assert len(of_project) == 1, [item.session for item in found]
    return of_project[0]


def copied(found: Found, target: str) -> Found:
    """Copy a conversation to another id, so that each pair starts with the original one."""
    store = found.store
    name = f"pair-{found.session.origin.tool}-{target}-{os.urandom(3).hex()}"  # a test may be run twice
    store.create(
        Session(
            id=name,
            type="plan",
            title="Herons",
            summary=SUMMARY,
            status="paused",
            origin=Origin(tool=found.session.origin.tool),
            extra=found.session.extra,
        )
    )
    store.append(name, *thread(store.read(found.session.id)))
    return Found(found.named_store, store.get(name))


def resumed(desk: Desk, stores: Stores, found: Found, target: str, project: Path) -> tuple[Plan, Request]:
    """Resume a conversation in a program and say one more thing there; return the plan and what its model received."""
    tool = tools.native_writer(target)
    plan = make_plan(found, tool, command=COMMAND, project=str(project))
    carry_out(plan, found, tool, stores.capture(), force=True)
    # If the prompt is public, the context block is in the session and not in the arguments of the program.
    prompt = GO_ON if tool.prompt_is_public else plan.prompt
    before = len(desk.server.turns)
    desk.server.push(ANSWER)
    done = desk.tools[target].run(f"{prompt}\n\n{NEXT}", cwd=project, resume=plan.key, timeout=TURN_SECONDS)
    assert done.returncode == 0, f"{target}: {done.stderr[-3000:]}"
    requests = [request for request in desk.server.turns[before:] if NEXT in "\n".join(request.texts())]
    assert requests, "the model was asked"
    return plan, requests[0]


def compare(request: Request, plan: Plan, said: Sequence[Said]) -> Outcome:
    """Compare what the model received with the receipt and with what was said in the source."""
    receipt = plan.receipt
    of_calls = sum(len(message.parts_of(TOOL_CALL)) for message in plan.carried)
    as_text = receipt.changed.get(Change.CALLS_AS_TEXT, 0)
    return Outcome(
        messages=receipt.messages,
        of_messages=receipt.of_messages,
        calls=receipt.tool_calls,
        of_calls=of_calls,
        left_out=dict(receipt.left_out),
        changed={str(kind): count for kind, count in receipt.changed.items()},
        problems=[
            *_missing(request, said),
            *_unpaired(request, receipt.tool_calls - as_text),
            *_without_output(request, plan.carried),
        ],
    )


def _missing(request: Request, said: Sequence[Said]) -> list[str]:
    """Return what is missing: each text in its order and role, then our command, the context block, and the prompt."""
    texts = [turn for turn in request.conversation if turn.kind == "text"]
    problems, position = [], 0
    closing = [Said(USER, text) for text in (COMMAND, "[RESUMED CONVERSATION]", SUMMARY, "[END RESUMED CONTEXT]", NEXT)]
    for role, text in [*said, *closing]:
        later = range(position, len(texts))
        index = next((index for index in later if text in texts[index].text and _role(texts[index]) == role), None)
        if index is None:
            problems.append(f"not received as {role} after text {position}: {text[:60]!r}")
        else:
            position = index
    return problems


def _role(turn: Turn) -> str:
    return {"model": ASSISTANT}.get(turn.role, turn.role)


def _unpaired(request: Request, expected: int) -> list[str]:
    """Return how the calls in a request differ from the expected number, and which have no result of their own."""
    calls = [turn.call_id for turn in request.conversation if turn.kind == "tool_call"]
    results = [turn.call_id for turn in request.conversation if turn.kind == "tool_result"]
    problems = [] if len(calls) == expected else [f"{len(calls)} calls were received, {expected} are in the receipt"]
    if sorted(results) != sorted(calls):
        problems.append(f"results for {results} were received, calls {calls}")
    return problems


def _without_output(request: Request, carried: Sequence[Message]) -> list[str]:
    """Return the calls whose recorded output did not arrive with them, in their own result or in the same text."""
    results = {turn.call_id: turn.text for turn in request.conversation if turn.kind == "tool_result"}
    recorded = {part.call_id: part.output for message in carried for part in message.parts_of("tool_result")}
    problems = []
    for call in (part for message in carried for part in message.parts_of(TOOL_CALL)):
        file, words = next((file, words) for file, words in FILES.items() if f"cat {file}" in str(call.input))
        if words not in recorded.get(call.id, ""):
            continue  # the source itself lost it
        together = [
            f"{turn.arguments}\n{results.get(turn.call_id, '')}" if turn.kind == "tool_call" else turn.text
            for turn in request.conversation
        ]
        if not any(f"cat {file}" in text and words in text for text in together):
            problems.append(f"the output of 'cat {file}' was not received with its call")
    return problems


def captured_again(desk: Desk, found: Found, target: str) -> list[str]:
    """Take in what was said after the resume; return problems unless exactly that was added and every id stayed."""
    before = [message.id for message in thread(found.store.read(found.session.id))]
    done = desk.cortext("sync", "--from", target, cwd=desk.home)
    if done.code:
        return [f"sync: {done.err}"]
    after = thread(found.store.read(found.session.id))
    problems = [] if [message.id for message in after][: len(before)] == before else ["earlier messages changed"]
    added = [message for message in after[len(before) :] if message.content]
    texts = [message.content for message in added if message.role == USER]
    if not added or added[-1].content != ANSWER or not (set(texts) <= {NEXT}):
        problems.append(f"added instead of the last turn: {[message.content[:60] for message in added]}")
    return problems
