"""What a person should know before continuing a conversation, in a tool or from the shell."""

from __future__ import annotations

from collections.abc import Callable

from cortext.errors import NotFound
from cortext.model import clock
from cortext.model.session import ACTIVE, COMPLETED, Origin
from cortext.safety.framing import field
from cortext.safety.secrets.masking import mask
from cortext.services.library.stores import Found, damage_note
from cortext.services.workspace.registry import has_changed
from cortext.store.capabilities import KeepsCopies
from cortext.tools import registry


def up_to_date(found: Found, caught_up: Callable[[Found], Found]) -> tuple[Found, list[str]]:
    """Return the conversation with everything its tool has written, and notes on what may be missing from it.

    If that fails, it is returned as stored. Raises DamagedData if Git LFS has not fetched it.
    """
    notes = []
    try:
        found = caught_up(found)
    except Exception as error:  # noqa: BLE001 (another package's adapter may raise anything)
        why = field(mask(str(error)).text)
        notes = [f"the latest messages may be missing, because they could not be captured: {why}"]
    note = damage_note(found)
    return found, [field(note), *notes] if note else notes


def notes_on(found: Found, here: Origin | None = None) -> list[str]:
    """Note if its command has changed or it is active in a tool right now. `here` is the chat that asks, if any."""
    session = found.session
    notes = []
    then = session.agent_config.system_prompt_hash
    if then and has_changed(found.root, session.type, then):
        notes.append(f"the text of {field(session.agent_config.command)} has changed; the current one is used")
    if isinstance(found.store, KeepsCopies) and found.store.has_left(session.id):
        notes.append("git took it out of the work tree: it comes back into it, on this branch, with the first message")
    origin = session.origin
    asking = here is not None and (here.tool, here.session_id) == (origin.tool, origin.session_id)
    if session.status == ACTIVE and origin.tool and not asking:
        where, when = field(registry.title_of(origin.tool)), field(clock.ago(session.last_active))
        notes.append(
            f"it is active in {where}, last active {when}; "
            "if it continues there as well, both are kept as branches, and the next prompt in each is told of the other"
        )
    return notes


def notes_in_chat(found: Found, here: Origin | None) -> list[str]:
    """Note the same before it continues in a running chat, and what a person at a terminal is asked."""
    session = found.session
    known = ["it was marked as completed"] if session.status == COMPLETED else []
    if session.branch_count > 1 and not session.branch:
        known.append(
            f"it went on in {session.branch_count} places at once, and all of them are joined here; "
            f"/workspace.resume {session.id} --branch N continues one"
        )
    return [*notes_on(found, here), *known]


def completed_text(found: Found) -> str:
    """Return what to say about a completed conversation: it is not resumed unless the user insists."""
    return (
        f"{found.session.id} was marked as completed, so it was not resumed; nothing was changed. Ask the user "
        f"whether to resume it anyway: /workspace.resume {found.session.id} --force"
    )


def choose_branch(found: Found, number: int) -> None:
    """Have a resume continue one branch of the conversation, from 1; 0: all of them. NotFound if there is none."""
    count = found.session.branch_count
    if number > count:
        raise NotFound(
            f"{found.session.id} has no branch {number}: it has {count}",
            kept="it is unchanged",
            hint=f"`cortext show {found.session.id}` shows them",
        )
    found.session.branch = number if count > 1 else 0
