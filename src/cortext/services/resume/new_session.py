"""What a new session of a tool gets: the messages without secrets and control text, with their newest images.

The bytes of an image are in the transcripts of the tools.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from cortext.model.message import IMAGE, TOOL, USER, Message, Part, Picture, image_type, plain
from cortext.model.turns import Difference
from cortext.safety.secrets.masking import Secret
from cortext.services.capture.copies import copies_of
from cortext.services.library.stores import StoredConversation
from cortext.services.projects.projects import project_of
from cortext.services.resume.receipt import Receipt
from cortext.services.text.for_models import disarm, disarm_control
from cortext.services.text.message_masking import mask_messages
from cortext.tools import registry
from cortext.tools.base import KeepsImages, NativeWriter, Transcript, Written

LARGEST = 3_750_000  # bytes of an image: 5 MB as base64, the smallest limit of all providers
MOST, MOST_BYTES = 20, 15_000_000  # of all images: one request carries them all
TOKENS = 1_600  # what an image takes in a request, about
SILENT = "message without text or tool calls"
LEFT_OUT = (Difference.ASIDE, Difference.CUT_REPLY, Difference.BRANCH)


def safe_messages(messages: Sequence[Message]) -> tuple[list[Message], list[Secret]]:
    """Return the messages without secrets and our own markers, and the secrets."""
    masked, secrets = mask_messages([plain(message) for message in messages])
    return [disarm(message) for message in masked], secrets


def for_new_session(
    messages: Sequence[Message], conversation: StoredConversation, tool: NativeWriter, receipt: Receipt
) -> tuple[list[Message], Written]:
    """Return safe messages as a new session of this tool gets them, and what it would hold; the receipt counts it."""
    disarmed = [disarm_control(message, tool.name) for message in messages]
    if count := sum(number for _, number in disarmed):
        receipt.changed[Difference.CONTROL] = count
    carried = _with_pictures([message for message, _ in disarmed], conversation)
    written = tool.preview(carried)
    _count(receipt, carried, written)
    return carried, written


def _count(receipt: Receipt, carried: Sequence[Message], written: Written) -> None:
    """Add to the receipt what a session that we write holds."""
    left: dict[str, int] = {kind: written.changed[kind] for kind in LEFT_OUT if kind in written.changed}
    receipt.changed |= {kind: count for kind, count in written.changed.items() if kind not in {*left, Difference.EMPTY}}
    left[SILENT] = len(carried) - written.messages - sum(left.values())
    receipt.left_out |= {kind.removesuffix(" left out"): count for kind, count in left.items() if count}
    receipt.messages, receipt.images = written.messages, written.images
    receipt.tokens += written.images * TOKENS


def _with_pictures(messages: Sequence[Message], conversation: StoredConversation) -> list[Message]:
    """Return the messages with the newest images loaded, as many as one request may carry.

    An image that is not inside a transcript (a path, an address) stays a reference: a stranger may have written it.
    """
    refs = [part.ref for message in reversed(messages) for part in reversed(_images(message))][:MOST]
    if not refs:
        return list(messages)
    kept: dict[str, tuple[str, bytes]] = {}
    size = 0
    loaded = _loaded(conversation, set(refs))
    for ref in dict.fromkeys(refs):
        image = loaded.get(ref, b"")
        kind = image_type(image)
        if kind and len(image) <= LARGEST and size + len(image) <= MOST_BYTES:
            size += len(image)
            kept[ref] = kind, image
    return [_with(message, kept) for message in messages]


def _images(message: Message) -> list[Part]:
    """Return the images in a message that a target takes: the user's, and those that a tool returned."""
    parts = message.parts_of(IMAGE) if message.role in (USER, TOOL) else []
    return [part for part in parts if "#" in part.ref]


def _with(message: Message, kept: dict[str, tuple[str, bytes]]) -> Message:
    if not any(part.ref in kept for part in _images(message)):
        return message
    parts = [
        Picture.of(part, *kept[part.ref]) if part.type == IMAGE and part.ref in kept else part
        for part in message.parts or ()
    ]
    return msgspec.structs.replace(message, parts=parts)


def _loaded(conversation: StoredConversation, refs: set[str]) -> dict[str, bytes]:
    """Return the bytes of these images, from our copies or else from the tools' own transcripts."""
    keys = {ref.partition("#")[0] for ref in refs}
    loaded: dict[str, bytes] = {}
    for tool in registry.load_all(registry.BUILT_IN):
        if not isinstance(tool, KeepsImages):
            continue
        for transcript in _transcripts(tool, conversation, keys):
            try:
                loaded |= tool.images(transcript, refs - loaded.keys())
            except Exception:  # noqa: BLE001 (a damaged transcript: the receipt counts the notes that stand for images)
                continue
            if refs <= loaded.keys():
                return loaded
    return loaded


def _transcripts(tool: KeepsImages, conversation: StoredConversation, keys: set[str]) -> Iterator[Transcript]:
    copies = (tool.transcript_at(copy) for copy in copies_of(conversation.session.path))
    yield from (copy for copy in copies if copy is not None and copy.key in keys)
    project = project_of(conversation.session)
    yield from (transcript for transcript in tool.transcripts(project or None) if transcript.key in keys)
