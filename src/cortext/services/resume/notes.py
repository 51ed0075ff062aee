"""What a person should know before continuing a conversation, in a tool or from the shell."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cortext.errors import NotFound
from cortext.model import clock
from cortext.model.message import TOOL_CALL, Message
from cortext.model.session import ACTIVE, CHECKOUT, COMPLETED, SKILLS, Origin, Session
from cortext.model.wording import amount, clip, listed
from cortext.safety.framing import field
from cortext.safety.secrets.masking import mask
from cortext.services.library.stores import StoredConversation, damage_note
from cortext.services.projects.git import Git
from cortext.services.projects.repository import Checkout, checkout_of
from cortext.services.workspace.registry import has_changed
from cortext.store.capabilities import KeepsCopies
from cortext.store.files.layout_paths import CONVERSATIONS
from cortext.tools import registry
from cortext.tools.base import Installer, TranscriptSource, skills_at_hand

GIT_SECONDS = 2.0  # for git to count commits
_MOST_NAMES, _LONGEST_NAME = 8, 80  # servers and skills that are named, and characters of each


def up_to_date(
    conversation: StoredConversation, caught_up: Callable[[StoredConversation], StoredConversation]
) -> tuple[StoredConversation, list[str]]:
    """Return the conversation with everything its tool has written, and notes on what may be missing from it.

    If that fails, it is returned as stored. Raises DamagedData if Git LFS has not fetched it.
    """
    notes = []
    try:
        conversation = caught_up(conversation)
    except Exception as error:  # noqa: BLE001 (another package's adapter may raise anything)
        why = field(mask(str(error)).text)
        notes = [f"the latest messages may be missing, because they could not be captured: {why}"]
    note = damage_note(conversation)
    return conversation, [field(note), *notes] if note else notes


def notes_on(conversation: StoredConversation, here: Origin | None = None) -> list[str]:
    """Note if it was completed, its command has changed, or it is active in a tool. `here` is the chat that asks."""
    session = conversation.session
    notes = ["it was marked as completed"] if session.status == COMPLETED else []
    then = session.agent_config.system_prompt_hash
    if then and has_changed(conversation.root, session.type, then):
        notes.append(f"the text of {field(session.agent_config.command)} has changed; the current one is used")
    if isinstance(conversation.store, KeepsCopies) and conversation.store.has_left(session.id):
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


def notes_in_chat(conversation: StoredConversation, here: Origin | None) -> list[str]:
    """Note the same before it continues in a running chat, and what a person at a terminal is asked."""
    session = conversation.session
    known = []
    if session.branch_count > 1 and not session.branch:
        known.append(
            f"it went on in {session.branch_count} places at once, and all of them are joined here; "
            f"/workspace.resume {session.id} --branch N continues one"
        )
    return [*notes_on(conversation, here), *known]


def completed_text(conversation: StoredConversation) -> str:
    """Return what to say about a completed conversation: it is not resumed unless the user insists."""
    return (
        f"{conversation.session.id} was marked as completed, so it was not resumed; nothing was changed. Ask the user "
        f"whether to resume it anyway: /workspace.resume {conversation.session.id} --force"
    )


def choose_branch(conversation: StoredConversation, number: int) -> None:
    """Have a resume continue one branch of the conversation, from 1; 0: all of them. NotFound if there is none."""
    count = conversation.session.branch_count
    if number > count:
        raise NotFound(
            f"{conversation.session.id} has no branch {number}: it has {count}",
            kept="it is unchanged",
            hint=f"`cortext show {conversation.session.id}` shows them",
        )
    conversation.session.branch = number if count > 1 else 0


# ── what is not as it was ────────────────────────────────────────────────────────────────────────────


def differences(
    session: Session, folder: str, tool: TranscriptSource | None = None, carried: Iterable[Message] = ()
) -> str:
    """Return in a line what is not as it was with the last message: checkout, MCP servers, skills; empty if all is.

    Only what is known on both sides is compared. `folder` is where it continues, in `tool` (None: a packet, for any).
    The calls in `carried` name servers, too.
    """
    checkout = _checkout(session, folder)
    missing = _missing(session, folder, tool, carried) if tool is not None else ""
    return field("; ".join(part for part in (checkout, missing) if part))


def _checkout(session: Session, folder: str) -> str:
    recorded = session.extra.get(CHECKOUT)
    values = recorded if isinstance(recorded, dict) else {}
    then, now = Checkout.of(values.get("branch"), values.get("head")), checkout_of(folder)
    parts = []
    if then.branch and now.branch and then.branch != now.branch:
        parts.append(f"branch {now.branch} (it was {then.branch})")
    if then.head and now.head and then.head != now.head:
        since = _commits(folder, now.head, then.head)
        if since != (0, 0):  # else only conversations were committed
            count = f", {amount(since[0], 'commit')} ago" if since is not None and since[1] == 0 else ""
            parts.append(f"HEAD {now.head} (it was {then.head}{count})")
    return ", ".join(parts)


def _commits(folder: str, now: str, then: str) -> tuple[int, int] | None:
    """Return how many commits were added and how many are gone, besides those of conversations; None if unknown."""
    words = ("rev-list", "--left-right", "--count", f"{now}...{then}", "--", ":(top)", f":(exclude){CONVERSATIONS}")
    counts = (Git(folder).reading(*words, timeout=GIT_SECONDS, literal=False) or b"").split()
    return (int(counts[0]), int(counts[1])) if len(counts) == 2 else None


def _missing(session: Session, folder: str, tool: TranscriptSource, carried: Iterable[Message]) -> str:
    """Return what the model had and does not find in this tool here."""
    parts = []
    if isinstance(tool, Installer):
        calls = (part.name for message in carried for part in message.parts_of(TOOL_CALL))
        used = {*session.agent_config.tools, *calls}
        servers = {name.split("__")[1] for name in used if name.startswith("mcp__") and name.count("__") >= 2}
        parts += [f"MCP server {name}" for name in sorted(servers - tool.mcp_servers(folder))]
    recorded, here = session.extra.get(SKILLS), skills_at_hand(tool, folder)
    if isinstance(recorded, list) and here is not None:
        skills = {name for name in recorded if isinstance(name, str)}
        parts += [f"skill {name}" for name in sorted(skills - here)]
    names = listed([clip(part, _LONGEST_NAME) for part in parts], _MOST_NAMES)
    return f"not set up in {tool.title} here: {names}" if parts else ""
