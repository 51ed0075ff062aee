"""The receipt of a resume: what was carried over, and what was not and why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from cortext.model.message import TOOL_CALL, Message, attachments_in
from cortext.model.session import TOOL_NOTES, Session
from cortext.model.turns import Difference
from cortext.model.wording import amount
from cortext.safety.secrets.masking import Secret
from cortext.services.resume.history import History

NOTES = "note of the tool to its model (memory files, reminders, texts of hooks)"
REPLACED = "message that was edited later, or answered the one that was"
OLDER = "older message (its facts are in the context block)"
MASKED = "secret masked"


class Receipt(msgspec.Struct, kw_only=True):
    """What was carried over, and what was not and why."""

    session: str
    target: str = "packet"
    messages: int = 0
    of_messages: int = 0
    tool_calls: int = 0
    attachments: int = 0
    images: int = 0
    tokens: int = 0
    left_out: dict[str, int] = {}
    changed: dict[str, int] = {}
    moved: dict[str, str] = {}  # the folders that paths were mapped from, each with the one that is named now
    differs: str = ""  # what is not as it was with the last message: see `differences`
    branches: str = ""  # which of several branches it is, or that they are joined
    price: str = ""  # what carrying it costs, in the target and in other tools

    @property
    def begun(self) -> str:
        """What the model gets of a conversation in which nothing was said; empty for any other."""
        if self.of_messages:
            return ""
        size = f"about {self.tokens:,} tokens"
        return f"nothing has been said in it yet; the model gets the command and the block, {size}"

    def lines(self) -> list[str]:
        """Return the receipt as lines for people."""
        counts = f"{self.messages} of {self.of_messages} messages, {self.tool_calls} tool calls"
        if self.attachments:
            counts += f", {amount(self.attachments, 'attached file')}"
        if self.images:
            counts += f", {amount(self.images, 'image')}"
        out = [f"carried    {counts}, about {self.tokens:,} tokens" if self.of_messages else f"new        {self.begun}"]
        out += [f"branches   {self.branches}"] if self.branches else []
        out += [f"differs    {self.differs}"] if self.differs else []
        out += [f"price      {self.price.removeprefix('carrying this costs ')}"] if self.price else []
        out += [f"left out   {count} × {kind}" for kind, count in self.left_out.items()]
        out += [f"changed    {count} × {kind}" for kind, count in self.changed.items()]
        out += [f"mapped     {old} to {new}" for old, new in self.moved.items()]
        return out


def receipt_of(session: Session, history: History, carried: Sequence[Message], target: str = "packet") -> Receipt:
    """Return the receipt of these messages of a history, which are its newest ones."""
    receipt = Receipt(
        session=session.id,
        target=target,
        messages=len(carried),
        of_messages=len(history) + history.replaced,
        tool_calls=sum(len(message.parts_of(TOOL_CALL)) for message in carried),
        attachments=attachments_in(carried),
    )
    if history.replaced:
        receipt.left_out[REPLACED] = history.replaced
    if older := len(history) - len(carried):
        receipt.left_out[OLDER] = older
    _count_branches(receipt, history, session.branch)
    return receipt


def _count_branches(receipt: Receipt, history: History, chosen: int) -> None:
    """Add to the receipt which branch of the conversation it is, or that several are joined."""
    found = history.branches
    if len(found) < 2:
        return
    if chosen:
        others = len({seq for branch in found for seq in branch.own} - {*found[chosen - 1].own})
        receipt.branches = f"{chosen} of {len(found)}: {found[chosen - 1].words}"
        receipt.of_messages += others
        receipt.left_out[Difference.BRANCH.removesuffix(" left out")] = others
    else:
        words = "; ".join(f"{number}. {branch.words}" for number, branch in enumerate(found, 1))
        receipt.branches = f"{len(found)}, joined, with a line in brackets where one begins or goes on: {words}"


def count_secrets(receipt: Receipt, secrets: Iterable[Secret]) -> None:
    """Add to the receipt what was masked, by kind."""
    for secret in secrets:
        kind = f"{MASKED} ({secret.kind})"
        receipt.changed[kind] = receipt.changed.get(kind, 0) + 1


def count_notes(receipt: Receipt, session: Session) -> None:
    """Add to the receipt what the tools in which the conversation was held told their models of their own accord."""
    notes = session.extra.get(TOOL_NOTES)
    counts = [count for count in notes.values() if isinstance(count, int)] if isinstance(notes, dict) else []
    if sum(counts) > 0:
        receipt.left_out[NOTES] = sum(counts)
