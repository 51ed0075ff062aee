"""Telegram on loopback: the part of the Bot API that our bot uses, with its limits, errors and restarts.

    with TelegramServer() as telegram:
        telegram.say(4711, "hello")                       # a user sends a message; the bot gets an update
        telegram.wait_for(lambda: telegram.said(4711))    # the current texts of the bot's messages in that chat
        telegram.fail("sendMessage", Fault(429, retry_after=1))

It checks what the real API checks: length in UTF-16 units, entities inside the text, edits that change nothing,
one getUpdates at a time. It records every call.
"""

from __future__ import annotations

import email.parser
import email.policy
import json
import re
import socket
import threading
import time
import urllib.error
import urllib.request
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self, cast
from urllib.parse import parse_qs

TOKEN = "987654:AAHfake-token_of_the_tests_0123456789ab"
BOT = 987654
NAME = "alfred_test_bot"
ME: dict[str, Any] = {"id": BOT, "is_bot": True, "first_name": "Alfred", "username": NAME}
LONGEST = 4096
CODE = ("code", "pre")
STYLES = ("bold", "italic", "strikethrough", "spoiler", "text_link", "blockquote", *CODE)


@dataclass
class Fault:
    """A failed call: an HTTP error, or a connection that breaks before or after the call was executed."""

    status: int = 0
    description: str = "told to fail"
    retry_after: int = 0
    cut: bool = False
    cut_after: bool = False


@dataclass
class Sent:
    """A message of the bot in its current state."""

    chat: int
    id: int
    text: str
    thread: int | None = None
    entities: list[dict[str, Any]] = field(default_factory=list)
    edits: int = 0
    document: tuple[str, bytes] | None = None
    buttons: list[tuple[str, str]] = field(default_factory=list)

    def styled(self, kind: str) -> list[str]:
        """Return the parts of the text with this style."""
        raw = self.text.encode("utf-16-le")
        return [
            raw[2 * entity["offset"] : 2 * (entity["offset"] + entity["length"])].decode("utf-16-le")
            for entity in self.entities
            if entity["type"] == kind
        ]


class TelegramServer:
    """The server; use it as a context manager. All methods may be called from any thread."""

    def __init__(self, token: str = TOKEN) -> None:
        self.token = token
        self.changed = threading.Condition()
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.webhook: dict[str, Any] = {}
        self._updates: deque[dict[str, Any]] = deque()
        self._faults: dict[str, deque[Fault]] = defaultdict(deque)
        self._messages: dict[tuple[int, int], Sent] = {}
        self._of_users: dict[tuple[int, int], dict[str, Any]] = {}  # the messages of users, as they are now
        self._next_update, self._next_message, self._poll = 100, 1, 0
        self._http = _Server(("127.0.0.1", 0), _Handler)
        self._http.telegram = self
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        with self.changed:
            self._poll += 1
            self.changed.notify_all()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(5)

    @property
    def url(self) -> str:
        """The address to give as `telegram.api_url`."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    # ── actions of users ────────────────────────────────────────────────────────────────────────────────

    def say(self, chat: int, text: str, *, user: int | None = None, thread: int | None = None, **more: Any) -> int:
        """Send a user's message; return the number of the update."""
        with self.changed:
            return self._arrive("message", self._message(chat, user, thread, {"text": text, **more}))

    def send(self, chat: int, *, user: int | None = None, **more: Any) -> int:
        """Send something other than text: `voice={…}`, `document={…}`."""
        with self.changed:
            return self._arrive("message", self._message(chat, user, None, more))

    def touch(self, sent: Sent, label: str, *, user: int | None = None) -> int:
        """Press a button under a message of the bot."""
        data = next(data for name, data in sent.buttons if name == label)
        with self.changed:
            message = self._message(sent.chat, BOT, sent.thread, {"text": sent.text})
            who = {"id": user if user is not None else abs(sent.chat), "is_bot": False, "first_name": "Test"}
            return self._arrive("callback_query", {"id": "touch", "from": who, "message": message, "data": data})

    def edit(self, chat: int, message: int, text: str) -> int:
        """Edit a user's message, or its caption. Telegram also reports an edit if the words are the same."""
        with self.changed:
            body = self._of_users[chat, message]  # Telegram reports no edit of a message that does not exist
            name = "text" if "text" in body else "caption"
            edited = {key: value for key, value in body.items() if key not in (name, "entities")}
            edited |= {name: text, "edit_date": max(int(time.time()), body["date"])}
            if name == "text" and (entities := _found_entities(text)):
                edited["entities"] = entities
            self._of_users[chat, message] = edited
            return self._arrive("edited_message", edited)

    def push(self, update: dict[str, Any]) -> None:
        """Queue any update, unchanged."""
        with self.changed:
            self._updates.append(update)
            self.changed.notify_all()

    def reply(self, to: Sent, text: str, *, user: int | None = None, **more: Any) -> int:
        """Reply to a message of the bot."""
        with self.changed:
            original = {**self._message(to.chat, BOT, to.thread, {"text": to.text}), "message_id": to.id}
            original["from"] = ME
            body = {"text": text, "reply_to_message": original, **more}
            return self._arrive("message", self._message(to.chat, user, to.thread, body))

    def last_message(self) -> int:
        """Return the number of the newest message, which may be a user's."""
        with self.changed:
            return self._next_message - 1

    def _message(self, chat: int, user: int | None, thread: int | None, more: dict[str, Any]) -> dict[str, Any]:
        sender = user if user is not None else abs(chat)
        if isinstance(more.get("text"), str):
            more = {**more, "entities": [*_found_entities(more["text"]), *more.get("entities", [])]}
            more = {name: value for name, value in more.items() if name != "entities" or value}
        message: dict[str, Any] = {
            "message_id": self._next_message,
            "date": int(time.time()),
            "chat": {"id": chat, "type": "private" if chat > 0 else "supergroup"},
            "from": {"id": sender, "is_bot": False, "first_name": "Test"},
            **more,
        }
        if thread is not None:
            message |= {"message_thread_id": thread, "is_topic_message": True}
        self._next_message += 1
        if sender != BOT:
            self._of_users[chat, message["message_id"]] = message
        return message

    def _arrive(self, kind: str, body: dict[str, Any]) -> int:
        number = self._next_update
        self._next_update += 1
        self._updates.append({"update_id": number, kind: body})
        self.changed.notify_all()
        return number

    # ── queries of a test ────────────────────────────────────────────────────────────────────────────

    def sent(self, chat: int, thread: int | None = None) -> list[Sent]:
        """Return the bot's messages in a chat, in order."""
        with self.changed:
            return [sent for sent in self._messages.values() if sent.chat == chat and sent.thread == thread]

    def said(self, chat: int, thread: int | None = None) -> list[str]:
        """Return their texts, without the placeholders of pending answers."""
        return [sent.text for sent in self.sent(chat, thread) if sent.text != "…"]

    def count(self, method: str) -> int:
        """Return how often a method was called."""
        with self.changed:
            return sum(name == method for name, _ in self.calls)

    @property
    def waiting(self) -> int:
        """The number of unconfirmed updates."""
        with self.changed:
            return len(self._updates)

    def wait_for(self, condition: Callable[[], Any], timeout: float = 60.0) -> None:
        """Wait until the condition holds; it is checked after each call of the bot."""
        deadline = time.monotonic() + timeout
        while not condition():
            left = deadline - time.monotonic()
            if left <= 0:
                raise AssertionError(f"not after {timeout:g} s; the last calls: {self.calls[-8:]}")
            with self.changed:
                self.changed.wait(min(left, 0.05))

    def fail(self, method: str, *faults: Fault) -> None:
        """Make the next calls of this method fail."""
        with self.changed:
            self._faults[method].extend(faults)

    def forget_faults(self) -> None:
        """Drop all queued faults."""
        with self.changed:
            self._faults.clear()

    def forget_message(self, chat: int, message: int) -> None:
        """Delete a message of the bot, as a user can."""
        with self.changed:
            del self._messages[chat, message]

    # ── the webhook ──────────────────────────────────────────────────────────────────────────────────

    def deliver(self, update: dict[str, Any] | bytes, *, secret: str | None = None) -> int:
        """Call the bot's webhook as Telegram does; return the status, or 0 if it hung up."""
        body = update if isinstance(update, bytes) else json.dumps(update).encode()
        headers = {"Content-Type": "application/json"}
        token = self.webhook.get("secret_token", "") if secret is None else secret
        if token:
            headers["X-Telegram-Bot-Api-Secret-Token"] = token
        request = urllib.request.Request(self.webhook["url"], body, headers)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=10) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            error.close()
            return error.code
        except OSError:
            return 0

    def next_update(self, chat: int, text: str, **more: Any) -> dict[str, Any]:
        """Return an update for `deliver`, without queueing it."""
        with self.changed:
            number = self._next_update
            self._next_update += 1
            return {"update_id": number, "message": self._message(chat, None, None, {"text": text, **more})}

    # ── the methods of the Bot API ───────────────────────────────────────────────────────────────────

    def answer(self, method: str, given: dict[str, Any]) -> tuple[Fault | None, int, dict[str, Any]]:
        """Return the fault of a call, if any, and its status and answer."""
        with self.changed:
            self.calls.append((method, given))
            fault = self._faults[method].popleft() if self._faults[method] else None
        if fault is not None and not fault.cut_after:
            body: dict[str, Any] = {"ok": False, "error_code": fault.status, "description": fault.description}
            if fault.retry_after:
                body["parameters"] = {"retry_after": fault.retry_after}
            return fault, fault.status, body
        try:
            result = getattr(self, f"do_{method}", self._unknown)(given)
            answer: tuple[int, dict[str, Any]] = (200, {"ok": True, "result": result})
        except _Bad as bad:
            answer = bad.code, {"ok": False, "error_code": bad.code, "description": bad.text}
        with self.changed:
            self.changed.notify_all()
        return (fault, *answer)

    def _unknown(self, given: dict[str, Any]) -> Any:
        raise _Bad("Not Found", 404)

    def do_getMe(self, given: dict[str, Any]) -> Any:
        return {**ME, "can_join_groups": True, "can_read_all_group_messages": True}

    def do_getUpdates(self, given: dict[str, Any]) -> Any:
        if self.webhook:
            raise _Bad("Conflict: can't use getUpdates method while webhook is active", 409)
        deadline = time.monotonic() + float(given.get("timeout", 0))
        with self.changed:
            self._poll += 1
            mine = self._poll
            self.changed.notify_all()
            offset = given.get("offset")
            while offset is not None and self._updates and self._updates[0]["update_id"] < offset:
                self._updates.popleft()
            while not self._updates and self._poll == mine and (left := deadline - time.monotonic()) > 0:
                self.changed.wait(left)
            if self._poll != mine:
                raise _Bad("Conflict: terminated by other getUpdates request", 409)
            return list(self._updates)[: int(given.get("limit", 100))]

    def do_setWebhook(self, given: dict[str, Any]) -> Any:
        with self.changed:
            self.webhook = given
        return True

    def do_deleteWebhook(self, given: dict[str, Any]) -> Any:
        with self.changed:
            self.webhook = {}
        return True

    def do_sendChatAction(self, given: dict[str, Any]) -> Any:
        return True

    def do_answerCallbackQuery(self, given: dict[str, Any]) -> Any:
        return True

    def do_setMyCommands(self, given: dict[str, Any]) -> Any:
        return True

    def do_sendMessage(self, given: dict[str, Any]) -> Any:
        return self._keep(given, *_checked(given))

    def do_sendDocument(self, given: dict[str, Any]) -> Any:
        document = given.get("document")
        if not isinstance(document, tuple):
            raise _Bad("Bad Request: there is no document in the request")
        return self._keep(given, str(given.get("caption", "")), [], document)

    def do_editMessageText(self, given: dict[str, Any]) -> Any:
        text, entities = _checked(given)
        with self.changed:
            sent = self._messages.get((int(given["chat_id"]), int(given["message_id"])))
            if sent is None:
                raise _Bad("Bad Request: message to edit not found")
            rows = (given.get("reply_markup") or {}).get("inline_keyboard", [])
            buttons = [(button["text"], button["callback_data"]) for row in rows for button in row]
            if any(len(data.encode()) > 64 or not label for label, data in buttons):
                raise _Bad("Bad Request: BUTTON_DATA_INVALID")
            if (sent.text, sent.entities, sent.buttons) == (text, entities, buttons):
                raise _Bad("Bad Request: message is not modified: specified new message content is exactly the same")
            sent.text, sent.entities, sent.edits, sent.buttons = text, entities, sent.edits + 1, buttons
            return _shown(sent)

    def do_deleteMessage(self, given: dict[str, Any]) -> Any:
        with self.changed:
            if self._messages.pop((int(given["chat_id"]), int(given["message_id"])), None) is None:
                raise _Bad("Bad Request: message to delete not found")
        return True

    def _keep(
        self,
        given: dict[str, Any],
        text: str,
        entities: list[dict[str, Any]],
        document: tuple[str, bytes] | None = None,
    ) -> dict[str, Any]:
        thread = given.get("message_thread_id")
        with self.changed:
            sent = Sent(int(given["chat_id"]), self._next_message, text, thread, entities, document=document)
            self._next_message += 1
            self._messages[sent.chat, sent.id] = sent
            return _shown(sent)


def _found_entities(text: str) -> list[dict[str, Any]]:
    """Return the entities that Telegram finds in a user's text by itself: mentions and commands."""
    kinds = (("mention", r"(?<!\w)@\w{4,32}"), ("bot_command", r"(?<![\w/])/\w{1,64}(?:@\w{4,32})?"))
    found = [(kind, match) for kind, pattern in kinds for match in re.finditer(pattern, text, re.ASCII)]
    return [
        {"type": kind, "offset": _units(text[: match.start()]), "length": _units(match[0])}
        for kind, match in sorted(found, key=lambda item: item[1].start())
    ]


def _units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


class _Bad(Exception):
    def __init__(self, text: str, code: int = 400) -> None:
        super().__init__(text)
        self.text, self.code = text, code


def _checked(given: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    """Return text and entities if Telegram accepts them."""
    text = str(given.get("text", ""))
    if not text.strip():
        raise _Bad("Bad Request: message text is empty")
    if text != text.strip():
        raise _Bad("the bot relies on whitespace that Telegram strips")
    size = _units(text)
    if size > LONGEST:
        raise _Bad("Bad Request: message is too long")
    entities = given.get("entities") or []
    if len(entities) > 100:
        raise _Bad("more entities than Telegram shows")
    for entity in entities:
        if entity["offset"] < 0 or entity["length"] <= 0 or entity["offset"] + entity["length"] > size:
            raise _Bad("Bad Request: entity begins or ends outside of the text")
        if entity["type"] not in STYLES or (entity["type"] == "text_link") != bool(entity.get("url")):
            raise _Bad(f"Bad Request: unsupported entity {entity}")
    inside = {kind: [entity for entity in entities if (entity["type"] in CODE) == kind] for kind in (True, False)}
    for code in inside[True]:
        for other in inside[False]:
            overlap = min(code["offset"] + code["length"], other["offset"] + other["length"])
            if other["type"] != "blockquote" and max(code["offset"], other["offset"]) < overlap:
                raise _Bad("a style in or around code, which Telegram does not show")
    return text, entities


def _shown(sent: Sent) -> dict[str, Any]:
    return {
        "message_id": sent.id,
        "date": int(time.time()),
        "chat": {"id": sent.chat, "type": "private" if sent.chat > 0 else "supergroup"},
        "text": sent.text,
    }


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    telegram: TelegramServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors: a killed bot breaks its connections."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""

    def do_POST(self) -> None:
        telegram = cast(_Server, self.server).telegram
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        _, token, method = self.path.split("/", 2)
        if token != f"bot{telegram.token}":
            self._reply(401, {"ok": False, "error_code": 401, "description": "Unauthorized"})
            return
        given = _given(self.headers.get("Content-Type", ""), body)
        fault, status, answer = telegram.answer(method, given)
        if fault is not None and (fault.cut or fault.cut_after):
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self._reply(status, answer)

    def _reply(self, status: int, answer: dict[str, Any]) -> None:
        raw = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)


def _given(kind: str, body: bytes) -> dict[str, Any]:
    """Parse the parameters of a call: a form in which lists and numbers are JSON, or a multipart form with a file."""
    if kind.startswith("multipart/"):
        head = f"Content-Type: {kind}\r\n\r\n".encode()
        found: dict[str, Any] = {}
        parsed = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + body)
        for part in parsed.iter_parts():
            name = part.get_param("name", header="content-disposition")
            raw = part.get_payload(decode=True)
            assert isinstance(raw, bytes)
            found[str(name)] = (part.get_filename(), raw) if part.get_filename() else _value(raw.decode())
        return found
    return {name: _value(values[-1], name) for name, values in parse_qs(body.decode(), keep_blank_values=True).items()}


def _value(text: str, name: str = "") -> Any:
    if name in ("text", "caption", "url", "secret_token"):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text
