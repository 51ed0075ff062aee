"""An update from Telegram as the assistant understands it: pure, from the update's own JSON, trusting none of it.

chat                    name (also the id of its first session)
private chat 4711       tg_4711
group -100123           tg_n100123          n replaces the minus
topic 7 of that group   tg_n100123_t7
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, NamedTuple, TypeGuard

from cortext.model.ids import chat_name, is_id, is_plain_name
from cortext.model.message import (
    ATTACHED,
    FILE,
    FORWARDED,
    IMAGE,
    QUOTES,
    REPLACES,
    TEXT,
    USER,
    Message,
    Part,
)
from cortext.safety import terminal

# The kinds of updates that we request from Telegram.
ASKED = ("message", "edited_message", "deleted_business_messages", "callback_query")

WORDS, COMMAND, EDIT, DELETION, MOVED, NOTHING = "words", "command", "edit", "deletion", "moved", "nothing"
AGAIN = "again"  # answer again what was said before, or continue the answer

_MEDIA = {
    "voice": "voice message",
    "audio": "audio file",
    "photo": "photo",
    "document": "file",
    "video": "video",
    "video_note": "video message",
    "animation": "animation",
    "sticker": "sticker",
    "venue": "place",  # also has a location, but says more
    "location": "location",
    "contact": "contact",
    "poll": "poll",
    "checklist": "checklist",
    "dice": "dice",
    "story": "story",
}
LONGEST_NAME = 120  # characters of a file name
LONGEST_CONTENT = 4_000  # characters of the content of a venue, a contact or a poll
QUOTED = 200  # characters of a message that the user replies to
_COMMAND = re.compile(r"/([a-z0-9_]{1,64})(?:@(\w{1,64}))?(?:\s+(.*))?\Z", re.IGNORECASE | re.DOTALL)


class Address(NamedTuple):
    """Where an answer goes."""

    chat: int
    thread: int | None = None

    @property
    def name(self) -> str:
        """The chat as the assistant knows it: a legal session id."""
        return chat_name(self.chat, self.thread)

    @property
    def is_group(self) -> bool:
        """Whether it is a group, which has stricter limits."""
        return self.chat < 0


class Media(NamedTuple):
    """A voice message, photo or file by reference: its bytes stay with Telegram. A location, contact or poll has no
    bytes: `content` is what it says."""

    kind: str
    ref: str
    name: str = ""
    media_type: str = ""
    seconds: int = 0
    content: str = ""

    @property
    def fields(self) -> dict[str, Any]:
        """What is stored about it beside the user's words (see `model.message.ATTACHED`)."""
        more = {"name": self.name, "seconds": self.seconds, "unseen": not self.content}
        return {"kind": self.kind, **{name: value for name, value in more.items() if value}}


class Incoming(NamedTuple):
    """One update: its kind, its sender, its chat and its text."""

    update: int
    kind: str
    user: int
    address: Address
    message: int = 0
    text: str = ""
    media: Media | None = None
    deleted: tuple[int, ...] = ()
    moved_to: int = 0
    touched: str = ""  # the id of a pressed button, which Telegram wants acknowledged
    forwarded: bool = False  # somebody else wrote the text
    quotes: str = ""  # the beginning of the message that it replies to
    addressed: bool = True  # in a group, whether it is meant for the bot: a command, a mention or a reply to it


class Refused(Exception):
    """An update that is not accepted; the text says why, for the log."""


def read(update: Any, *, longest: int, bot_name: str = "", bot: int = 0) -> Incoming:
    """Parse an update of the bot with this id. Malformed, oversized or dangerous ones raise Refused; those we do not
    serve become NOTHING.
    """
    if not isinstance(update, dict) or not _is_number(update.get("update_id")):
        raise Refused("not an update")
    number = update["update_id"]
    if "deleted_business_messages" in update:
        return _deletion(number, update["deleted_business_messages"])
    if "callback_query" in update:
        return _touched(number, update["callback_query"], longest=longest, bot_name=bot_name)
    for name in ("message", "edited_message"):
        if name in update:
            incoming = _message(number, update[name], edited=name != "message", longest=longest, bot_name=bot_name)
            return incoming._replace(addressed=_is_addressed(incoming, update[name], bot_name, bot))
    return Incoming(number, NOTHING, 0, Address(0))


def number_of(body: Any) -> int:
    """Return the number of an update; -1 for what is none."""
    number = body.get("update_id") if isinstance(body, dict) else None
    return number if isinstance(number, int) else -1


def _touched(number: int, touch: Any, *, longest: int, bot_name: str) -> Incoming:
    """Return the command of a pressed button under one of our messages, as if the user had typed it."""
    message, key = (touch.get("message"), touch.get("id")) if isinstance(touch, dict) else (None, None)
    if not isinstance(message, dict) or not isinstance(key, str) or not isinstance(touch.get("data"), str):
        raise Refused("a malformed button")
    where = {name: message[name] for name in ("message_id", "chat", "message_thread_id", "is_topic_message")
             if name in message}  # fmt: skip
    said = {**where, "from": touch.get("from"), "text": touch["data"]}
    incoming = _message(number, said, edited=False, longest=longest, bot_name=bot_name)
    if incoming.kind not in (COMMAND, AGAIN):
        raise Refused("a button without a command")
    return incoming._replace(touched=key[:200])


def check_user(incoming: Incoming, allowed: Collection[int]) -> None:
    """Raise Refused if the user is not on the list."""
    if incoming.user not in allowed:
        raise Refused(f"user {incoming.user} is not on the list")


def _message(number: int, message: Any, *, edited: bool, longest: int, bot_name: str) -> Incoming:
    if not isinstance(message, dict):
        raise Refused("a message that is not an object")
    sender = message.get("from")
    user = sender["id"] if isinstance(sender, dict) and _is_number(sender.get("id")) else 0
    address = _address(message)
    message_id = message.get("message_id")
    if not _is_number(message_id) or not is_id(address.name):
        raise Refused("a message without an id or a chat")
    here = Incoming(number, NOTHING, user, address, message_id)
    moved = message.get("migrate_to_chat_id")
    if _is_number(moved):
        return here._replace(kind=MOVED, moved_to=moved)
    text = message.get("text", message.get("caption", ""))
    if not isinstance(text, str):
        raise Refused("a message whose text is not a string")
    if len(text) > longest:
        raise Refused(f"a message of {len(text):,} characters")
    media = _media(message)
    text = text.strip()
    if bot_name and text.lower().startswith(f"@{bot_name.lower()} "):
        text = text[len(bot_name) + 2 :].lstrip()
    if not text and media is None:
        return here
    if text and "forward_origin" in message:
        # Not the user's own words: neither a command nor an instruction.
        return here._replace(kind=EDIT if edited else WORDS, text=text, media=media, forwarded=True)
    here = here._replace(kind=EDIT if edited else WORDS, text=text, media=media)
    command = _COMMAND.match(text)
    if command and not edited and media is None:
        name, other, rest = command.groups()
        if other and bot_name and other.lower() != bot_name.lower():
            return here._replace(kind=NOTHING)  # meant for another bot in the group
        text = f"/{name.lower()} {rest or ''}".strip()
        return here._replace(kind=AGAIN if text in ("/retry", "/continue") else COMMAND, text=text)
    return here._replace(quotes=_quoted(message))


def _is_addressed(incoming: Incoming, message: dict[str, Any], bot_name: str, bot: int) -> bool:
    """Whether a message is meant for the bot: everything is in a private chat; in a group, commands, mentions of the
    bot and replies to it are.
    """
    if not incoming.address.is_group or incoming.kind in (COMMAND, AGAIN, MOVED, DELETION):
        return True
    original = message.get("reply_to_message")
    if isinstance(original, dict) and "forum_topic_created" not in original:  # what a message in a topic replies to
        author = original.get("from")
        if isinstance(author, dict) and author.get("id") == bot:
            return True
    text = message.get("text", message.get("caption", ""))
    entities = message.get("entities", message.get("caption_entities"))
    return any(
        _mentions(entity, text.encode("utf-16-le"), bot_name, bot)
        for entity in (entities if isinstance(entities, list) else ())
        if isinstance(entity, dict)
    )


def _mentions(entity: dict[str, Any], text: bytes, bot_name: str, bot: int) -> bool:
    """Whether an entity of a text, whose offsets count UTF-16 units, is the name of the bot."""
    user = entity.get("user")
    if entity.get("type") == "text_mention":
        return isinstance(user, dict) and user.get("id") == bot
    start, length = entity.get("offset"), entity.get("length")
    if entity.get("type") != "mention" or not _is_number(start) or not _is_number(length) or start < 0:
        return False
    return text[2 * start : 2 * (start + length)].decode("utf-16-le", "replace").lower() == f"@{bot_name.lower()}"


def _quoted(message: dict[str, Any]) -> str:
    """Return the beginning of the message that the user replied to: otherwise only the user knows which one it is."""
    original = message.get("reply_to_message")
    words = original.get("text", original.get("caption")) if isinstance(original, dict) else None
    if not isinstance(words, str) or not words.strip():
        return ""
    words = " ".join(words.split())
    return words if len(words) <= QUOTED else words[:QUOTED] + "…"


def _address(message: dict[str, Any]) -> Address:
    chat = message.get("chat")
    number = chat.get("id") if isinstance(chat, dict) else None
    if not _is_number(number) or not number:
        raise Refused("a message without a chat")
    # Replies in ordinary groups have a thread id too: only a topic is a conversation of its own.
    thread = message.get("message_thread_id") if message.get("is_topic_message") else None
    return Address(number, thread if _is_number(thread) else None)


def _deletion(number: int, body: Any) -> Incoming:
    gone = body.get("message_ids") if isinstance(body, dict) else None
    if not isinstance(gone, list) or len(gone) > 1000 or not all(map(_is_number, gone)):
        raise Refused("a malformed deletion")
    address = _address(body)
    return Incoming(number, DELETION, address.chat, address, deleted=tuple(gone))


def _media(message: dict[str, Any]) -> Media | None:
    for name, kind in _MEDIA.items():
        found = message.get(name)
        if isinstance(found, list) and found:
            found = found[-1]  # a photo in several sizes: the last is the largest
        if not isinstance(found, dict):
            continue
        reference = found.get("file_id")
        media_type, seconds = found.get("mime_type"), found.get("duration")
        return Media(
            kind,
            f"telegram:{reference}" if isinstance(reference, str) and len(reference) < 300 else "",
            clean_name(found.get("file_name")),
            media_type if isinstance(media_type, str) and len(media_type) < 100 else "",
            seconds if _is_number(seconds) else 0,
            _content(name, found)[:LONGEST_CONTENT],
        )
    return None


def _content(name: str, found: dict[str, Any]) -> str:
    """Return the content of a location, contact, poll or checklist in one line; empty if it has none."""
    if name == "venue":
        location = found.get("location")
        where = _content("location", location) if isinstance(location, dict) else ""
        return _joined(found.get("title"), found.get("address"), where)
    if name == "location":
        degrees = [found.get("latitude"), found.get("longitude")]
        return ", ".join(str(value) for value in degrees) if all(isinstance(d, float | int) for d in degrees) else ""
    if name == "contact":
        person = " ".join(filter(None, (_words(found.get("first_name")), _words(found.get("last_name")))))
        return _joined(person, found.get("phone_number"), found.get("vcard"))
    if name == "poll":
        return _joined(found.get("question"), *_texts(found.get("options")), between=" / ")
    if name == "checklist":
        return _joined(found.get("title"), *_texts(found.get("tasks")), between=" / ")
    if name == "dice":
        return _joined(found.get("emoji"), str(found.get("value", "")))
    return ""


def _texts(items: Any) -> list[str]:
    return [_words(item.get("text")) for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _joined(*texts: Any, between: str = ", ") -> str:
    return between.join(filter(None, map(_words, texts)))


def _words(text: Any) -> str:
    """Return a stranger's text in one line, without characters that hide or reverse a part of it."""
    return terminal.line(" ".join(text.split())) if isinstance(text, str) else ""


def clean_name(name: Any) -> str:
    """Return a file name as one plain name: no path, no characters that hide or reverse text, no outer whitespace."""
    if not isinstance(name, str):
        return ""
    chars = ("_" if char in "/\\" else char for char in name if char.isprintable() or char.isspace())
    shown = " ".join("".join(chars).split())
    if len(shown) > LONGEST_NAME:
        stem, dot, ending = shown.rpartition(".")
        ending = f".{ending}" if dot and len(ending) < 16 else ""
        shown = f"{(stem if ending else shown)[: LONGEST_NAME - len(ending) - 1]}…{ending}"
    return shown if is_plain_name(shown) else ""


def _is_number(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 53


def message_of(incoming: Incoming, bot: int, replaced: str = "") -> Message:
    """Return the user's message as it is stored, with the id of its update, and of the message that it replaces."""
    media = incoming.media
    origin = {
        "bot": bot,
        "update": incoming.update,
        "chat": incoming.address.chat,
        "message": incoming.message,
        "from": incoming.user,
    }
    if incoming.address.thread is not None:
        origin["thread"] = incoming.address.thread
    # Only what the user said is content: what is said about it has fields of its own.
    extra: dict[str, Any] = {"telegram": origin}
    extra |= {REPLACES: replaced} if replaced else {}
    extra |= {FORWARDED: True} if incoming.forwarded else {}
    extra |= {QUOTES: incoming.quotes} if incoming.quotes else {}
    words, parts = incoming.text, None
    if media is not None:
        extra[ATTACHED] = media.fields
        words = "\n".join(filter(None, (words, media.content)))
        if not media.content:
            kind = IMAGE if media.kind == "photo" else FILE
            file = Part(type=kind, ref=media.ref, name=media.name, media_type=media.media_type)
            parts = [*([Part(type=TEXT, text=words)] if words else []), file]
    return Message(role=USER, content=words, parts=parts, extra=extra)
