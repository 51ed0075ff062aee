"""Handing a conversation to an AI tool natively, as real turns in the tool's own store: what a plan says is done."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence

from cortext.config import folders
from cortext.errors import CortextError, DamagedData, NotFound
from cortext.io import durable
from cortext.model.message import USER
from cortext.model.session import ACTIVE, check_transition
from cortext.safety.framing import GO_ON, field
from cortext.safety.secrets.masking import mask
from cortext.services.capture import first_turns
from cortext.services.capture.capture import Capture
from cortext.services.capture.copies import NotPutBack, put_back
from cortext.services.library.stores import StoredConversation
from cortext.services.resume.planning import BEGUN, NEW, OWN, PUT_BACK, Plan, plan_for
from cortext.tools.base import EXAMPLE_KEY, Instructs, Launch, NativeWriter, Written, shows_history

_EXCHANGES = 2  # that are shown of a conversation that the tool does not show


def example_launch(plan: Plan, tool: NativeWriter, model: str = "") -> Launch:
    """Return how the tool would be started, without preparing or writing anything; the prompt is left out.

    If the tool cannot be started, that is a warning of the plan.
    """
    try:
        # Not with the real key: a launch may prepare the tool for that session.
        launch = tool.launch(EXAMPLE_KEY, project=plan.project, prompt="…", model=model)
    except NotFound as error:
        if EXAMPLE_KEY not in error.message:  # else it is only the example that is not there
            plan.warnings.append(error.message)
        return Launch(argv=[tool.name, "…"], cwd=plan.project)
    launch = instructed(plan, tool, launch, for_display=True)
    if plan.key:
        launch.argv = [re.sub(rf"(?:^|(?<=/)){EXAMPLE_KEY}(?=\.|$)", lambda _: plan.key, word) for word in launch.argv]
    plan.warnings += [launch.note] if launch.note else []
    return launch


def carry_out_or_rewrite(
    plan: Plan,
    conversation: StoredConversation,
    tool: NativeWriter,
    capture: Capture,
    *,
    budget: int,
    missing: Sequence[str] = (),
    model: str = "",
    force: bool = False,
) -> tuple[Plan, Launch]:
    """Carry out a plan; if the tool's own session cannot be put back, a new plan that writes a new one.

    Returned is the plan that was carried out. See `carry_out` for the errors.
    """
    try:
        return plan, carry_out(plan, conversation, tool, capture, model=model, force=force)
    except NotPutBack as error:
        plan = plan_for(conversation, tool, budget=budget, rewrite=True, missing=[*missing, error.message])
        return plan, carry_out(plan, conversation, tool, capture, model=model, force=force)


def carry_out(
    plan: Plan,
    conversation: StoredConversation,
    tool: NativeWriter,
    capture: Capture,
    *,
    model: str = "",
    force: bool = False,
) -> Launch:
    """Write what the plan says, and return how to start the tool; our session is not changed.

    The tool's own start (`hooks`) or the user's next message there (`capture`) records that it is active, and in which
    tool: a tool that does not start leaves everything as it was. Raise NotPutBack if the tool's own session cannot be
    put back from our copy: then only a plan with `rewrite` can be carried out.
    """
    check_transition(plan.session.status, ACTIVE, force=force)
    try:
        if plan.how == BEGUN:
            plan.written, launch = tool.launch_new(
                project=plan.project, prompt=plan.prompt, title=_title(plan), model=model
            )
        else:
            plan.written = _bring(plan, tool, model)
        if plan.written is not None:
            plan.key = plan.written.key
        if plan.how != BEGUN:
            # A session that we wrote contains what describes the conversation; the tool's own needs nothing more.
            prompt = GO_ON if plan.how == NEW else plan.prompt
            launch = tool.launch(plan.key, project=plan.project, prompt=prompt, model=model)
        launch = instructed(plan, tool, launch)
        plan.warnings += [launch.note] if launch.note else []
        branch = plan.session.branch if plan.session.branch_count > 1 else None
        plan.before = capture.hand_over(conversation.named_store, plan.session.id, tool.name, plan.key, branch=branch)
        _remember(plan, conversation, tool)
    except BaseException:
        _discard(plan, tool)
        raise
    return launch


def instructed(plan: Plan, tool: NativeWriter, launch: Launch, *, for_display: bool = False) -> Launch:
    """Return the launch with the command's text in the tool's system prompt, if the plan has one for it.

    The text is in a file of the state folder, named by its content. A launch that is only displayed has an ellipsis.
    """
    if not plan.instructions or not isinstance(tool, Instructs):
        return launch
    if for_display:
        return tool.instructed(launch, "…", "…")
    data = plan.instructions.encode("utf-8", "replace")
    path = os.path.join(folders.state(), "commands", f"{hashlib.sha256(data).hexdigest()[:8]}.md")
    if not os.path.exists(path):
        durable.ensure_folder(os.path.dirname(path))
        durable.replace_file(path, [data])
    return tool.instructed(launch, plan.instructions, path)


def unseen_end(plan: Plan, tool: NativeWriter) -> list[tuple[bool, str]]:
    """Return how the conversation ends, if the tool's own screen does not show it: two prompts and their last answers.

    Each is the text, and whether the user said it.
    """
    if shows_history(tool):
        return []
    spoken = [(message.role == USER, message.content) for message in plan.carried if message.content.strip()]
    ends = [one for one, after in zip(spoken, [*spoken[1:], (True, "")], strict=True) if one[0] or after[0]]
    prompts = [index for index, (is_users, _) in enumerate(ends) if is_users]
    return ends[prompts[-_EXCHANGES:][0] :] if prompts else ends[-1:]


def take_back(plan: Plan, tool: NativeWriter, capture: Capture) -> None:
    """Undo `carry_out`: the tool could not be started."""
    capture.take_back(tool.name, plan.key, plan.before)
    first_turns.forget(tool.name, plan.key)
    _discard(plan, tool)


def _remember(plan: Plan, conversation: StoredConversation, tool: NativeWriter) -> None:
    """Keep what the capture of the first turn compares the tool's session with, and a copy of the tool's own file."""
    if plan.how == BEGUN:
        return
    try:
        transcript = next(item for item in tool.transcripts(plan.project) if item.key == plan.key)
        carried = plan.kept if plan.how in (OWN, PUT_BACK) else None
        first_turns.keep(tool, transcript, conversation.root, conversation.session.id, carried)
    except (CortextError, OSError, StopIteration) as error:
        plan.warnings.append(f"whether {tool.title} keeps all of it cannot be checked after the first turn: {error}")


def _discard(plan: Plan, tool: NativeWriter) -> None:
    if plan.written is not None:
        tool.discard(plan.written, project=plan.project)
        plan.written = None


def _bring(plan: Plan, tool: NativeWriter, model: str) -> Written | None:
    if plan.how == OWN:
        return None
    if plan.how == PUT_BACK:
        wanted = {message.id for message in plan.carried}
        plan.key = put_back(tool, plan.copy, project=plan.project, wanted=wanted)
        return None
    written = tool.write(plan.carried, project=plan.project, title=_title(plan), model=model, note=plan.prompt)
    if written.tool_calls != plan.receipt.tool_calls:
        tool.discard(written, project=plan.project)
        raise DamagedData(
            f"{tool.title} accepted {written.tool_calls} of {plan.receipt.tool_calls} tool calls",
            kept="the conversation, in our store",
            hint="resume it with --print, and report this",
        )
    return written


def _title(plan: Plan) -> str:
    """Return the conversation's name in the tool's own list."""
    return field(mask(plan.session.title).text)
