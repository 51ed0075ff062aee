"""Handing a conversation to an AI tool: natively, as real turns in the tool's own store.

The tool's own session is used where it still holds exactly this conversation; a copy that we kept goes back
where the tool lost it; otherwise a new native session is written. The first prompt is the conversation's
command and the context block; the receipt says what crossed and what could not.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from cortext.errors import DamagedData
from cortext.model import tokens
from cortext.model.message import TOOL, TOOL_CALL, Message, attachments_in, plain, thread
from cortext.model.session import Change, Origin, Session
from cortext.model.status import ACTIVE, PAUSED
from cortext.safety.secrets import mask
from cortext.services.masking import mask_messages
from cortext.services.resume.history import History
from cortext.services.resume.packet import DIGEST_OF, Receipt, context_block, facts_before
from cortext.services.resume.render import body
from cortext.services.stores import Found

if TYPE_CHECKING:
    from cortext.services.capture import Capture
    from cortext.tools.base import Launch, Tool, Written

OWN = "its own session, as it is"
PUT_BACK = "its own session, put back from our copy"
NEW = "a new native session"


class Plan(msgspec.Struct, kw_only=True):
    """What a resume will do: nothing of it is done yet."""

    session: Session
    project: str
    carried: list[Message]
    prompt: str
    receipt: Receipt
    how: str
    key: str = ""
    warnings: list[str] = []


def make_plan(
    found: Found,
    tool: Tool,
    *,
    command: str = "",
    budget: int = 120_000,
    project: str = "",
) -> Plan:
    """Look at the conversation and at what the tool has, and decide."""
    session = found.session
    history = History(found.place.store, session)
    project = project or project_of(found)
    history.expect(budget, before=DIGEST_OF)
    fitting = _newest_that_fit(history, budget)
    earlier = len(history) - len(fitting)
    carried, secrets = mask_messages([plain(message) for message in fitting])
    before = facts_before(history, earlier)
    context = mask(context_block(session, messages=len(history), before=before, native=True)).text
    prompt = f"{command.strip()}\n\n{context}" if command.strip() else context
    receipt = Receipt(
        session=session.id,
        target=tool.name,
        messages=len(carried),
        of_messages=len(history),
        tool_calls=sum(len(message.parts_of(TOOL_CALL)) for message in carried),
        attachments=attachments_in(carried),
        tokens=sum(message.tokens or tokens.estimate(body(message)) for message in carried) + tokens.estimate(prompt),
    )
    for kind in [f"secret masked ({secret.kind})" for secret in secrets]:
        receipt.changed[kind] = receipt.changed.get(kind, 0) + 1
    if earlier:
        receipt.left_out["older messages (the facts in them are in the block)"] = earlier
    how, key = (NEW, "") if earlier else _own_session(found, tool, carried)
    if how == NEW:
        receipt.changed |= tool.preview(carried).changed
    return Plan(
        session=session,
        project=project,
        carried=carried,
        prompt=prompt,
        receipt=receipt,
        how=how,
        key=key,
    )


def warnings_for(found: Found, tool: Tool, plan: Plan, current_hash: str) -> list[str]:
    """What the user should know before going on: a changed command, tools that are not there any more."""
    config = found.session.agent_config
    warnings = []
    if config.system_prompt_hash and current_hash and config.system_prompt_hash != current_hash:
        warnings.append(f"the text of {config.command} changed since; the current one is used")
    used = {*config.tools, *(part.name for message in plan.carried for part in message.parts_of(TOOL_CALL))}
    servers = {name.split("__")[1] for name in used if name.startswith("mcp__") and name.count("__") >= 2}
    missing = sorted(servers - tool.mcp_servers(plan.project))
    if missing:
        warnings.append(f"tools that it used are not set up in {tool.title} here: MCP server {', '.join(missing)}")
    return warnings


def carry_out(
    plan: Plan, found: Found, tool: Tool, capture: Capture, *, model: str = "", force: bool = False
) -> Launch:
    """Write what the plan says, mark the session active, and say how to start the tool."""
    store, session = found.place.store, plan.session
    if session.status != ACTIVE:  # refused here, before anything was written, if it was completed
        store.update(session.id, Change(status=ACTIVE, force=force))
    try:
        written = _bring(plan, tool, model)
    except BaseException:
        store.update(session.id, Change(status=PAUSED))
        raise
    if written is not None:
        plan.key = written.key
        plan.receipt.changed |= written.changed
    store.update(session.id, Change(origin=Origin(tool=tool.name, session_id=plan.key)))
    if plan.how == NEW:
        capture.attach(found.place, session.id, tool.name, plan.key)
    return tool.launch(plan.key, project=plan.project, prompt=plan.prompt, model=model)


def _bring(plan: Plan, tool: Tool, model: str) -> Written | None:
    if plan.how == OWN:
        return None
    if plan.how == PUT_BACK:
        from cortext.services.capture import copy_path

        plan.key = tool.put_back(copy_path(plan.session), project=plan.project)
        return None
    written = tool.write(plan.carried, project=plan.project, title=plan.session.title, model=model)
    if written.tool_calls != plan.receipt.tool_calls:
        raise DamagedData(
            f"{tool.title} took {written.tool_calls} of {plan.receipt.tool_calls} tool calls",
            kept="the conversation, in our store",
            hint="resume it with --print, and report this",
        )
    return written


def _own_session(found: Found, tool: Tool, messages: Sequence[Message]) -> tuple[str, str]:
    """Whether the tool itself, or our copy of its file, holds exactly these messages."""
    session = found.session
    key = session.origin.session_id
    if session.origin.tool != tool.name or not key:
        return NEW, ""
    wanted = [message.id for message in messages]
    for transcript in tool.transcripts():
        if transcript.key == key:
            held = [message.id for message in thread(tool.read(transcript))]
            return (OWN, key) if held == wanted else (NEW, "")
    from cortext.services.capture import copy_path

    copy = copy_path(session)
    kept = tool.transcript_at(copy) if os.path.exists(copy) else None
    if kept is not None and [message.id for message in thread(tool.read(kept))] == wanted:
        return PUT_BACK, key
    return NEW, ""


def _newest_that_fit(history: History, budget: int) -> list[Message]:
    """The newest messages that fit the budget, oldest first; never beginning between a call and its result."""
    chosen: list[Message] = []
    used = 0
    for message in history.backwards():
        used += message.tokens or tokens.estimate(body(message))
        if used > budget and chosen:
            break
        chosen.append(message)
    if len(chosen) < len(history):
        while len(chosen) > 1 and chosen[-1].role == TOOL:
            chosen.pop()
    return chosen[::-1]


def project_of(found: Found) -> str:
    """The folder that the conversation belongs to: its workspace, or the project that it was held in."""
    if found.place.kind == "workspace":
        return found.place.root
    project = found.session.extra.get("project")
    return project if isinstance(project, str) and os.path.isdir(project) else os.getcwd()
