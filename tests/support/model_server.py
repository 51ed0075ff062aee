"""A scriptable model server on loopback that speaks five protocols and records its requests.

    with ModelServer() as server:
        server.push(Reply.call("Bash", command="cat a.txt"), "all done")
        ...                                        # run a program against server.url
        server.wait_for(lambda request: request.protocol == "anthropic", timeout=10)
        assert server.turns[-1].conversation[-1].text == "..."

As a program's HTTPS proxy it refuses every CONNECT and records the host.
"""

from __future__ import annotations

import gzip
import json
import select
import socket
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self, cast

from tests.support.model_ollama import OLLAMA
from tests.support.model_protocols import ANTHROPIC, CHAT, GEMINI, RESPONSES, Event, Protocol
from tests.support.model_reply import Json, Reply, ToolCall, Turn, directive

__all__ = ["ModelServer", "Reply", "Request", "ToolCall", "Turn"]

_HOLD_SECONDS = 120.0
_GARBAGE = b'{"half": "a doc'


@dataclass(frozen=True)
class Request:
    """One request as received. `errand` marks the program's own side requests: titles, routing, counting."""

    number: int
    method: str
    path: str
    headers: dict[str, str]
    body: Any
    protocol: str
    errand: bool
    conversation: tuple[Turn, ...]

    @property
    def is_turn(self) -> bool:
        """Whether this asks the model for the next turn of the conversation."""
        return bool(self.protocol) and not self.errand

    def texts(self, role: str | None = None) -> list[str]:
        """Return the plain texts of the conversation, optionally of one role."""
        return [turn.text for turn in self.conversation if turn.kind == "text" and role in (None, turn.role)]


class ModelServer:
    """The server; use it as a context manager. All methods may be called from any thread."""

    def __init__(self, default_text: str = "Hello from the test model.") -> None:
        self._default_text = default_text
        self._changed = threading.Condition()
        self._requests: list[Request] = []
        self._script: deque[Reply] = deque()
        self._standing: dict[str, str] = {}
        self._answered = 0
        self._hung_up = 0
        self._held = 0
        self._closing = threading.Event()
        self._http = _HttpServer(("127.0.0.1", 0), _Handler)
        self._http.model = self
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop serving and break the open connections."""
        self._closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._http.break_connections()
        self._thread.join(timeout=5)

    @property
    def port(self) -> int:
        """The port on 127.0.0.1."""
        return int(self._http.server_address[1])

    @property
    def url(self) -> str:
        """The URL, without a path or trailing slash."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def requests(self) -> list[Request]:
        """All requests, in order of arrival."""
        with self._changed:
            return list(self._requests)

    @property
    def turns(self) -> list[Request]:
        """The requests for a turn of a conversation, without errands and listings."""
        return [request for request in self.requests if request.is_turn]

    @property
    def refused(self) -> list[str]:
        """The hosts that a program tried to reach through this server as its proxy."""
        return [request.path for request in self.requests if request.method == "CONNECT"]

    def push(self, *replies: Reply | str) -> None:
        """Queue the answers to the next turns; a string is a text reply."""
        with self._changed:
            self._script.extend(Reply(text=reply) if isinstance(reply, str) else reply for reply in replies)

    def answer(self, words: str, text: str) -> None:
        """From now on, answer each prompt that contains these words with a text; what was set first comes first."""
        with self._changed:
            self._standing[words] = text

    @property
    def pending(self) -> int:
        """The number of queued answers not used yet."""
        with self._changed:
            return len(self._script)

    def forget(self) -> None:
        """Drop the recorded requests and the queued answers, between two phases of a test."""
        with self._changed:
            self._requests.clear()
            self._script.clear()
            self._standing.clear()

    def drop_replies(self) -> None:
        """Drop the queued and the standing answers only."""
        with self._changed:
            self._script.clear()
            self._standing.clear()

    def wait_for(self, predicate: Callable[[Request], bool], timeout: float = 60.0) -> Request:
        """Return the first request, past or future, that the predicate accepts; TimeoutError if none does."""
        deadline = time.monotonic() + timeout
        seen = 0
        with self._changed:
            while True:
                for request in self._requests[seen:]:
                    if predicate(request):
                        return request
                seen = len(self._requests)
                left = deadline - time.monotonic()
                if left <= 0:
                    paths = [f"{request.method} {request.path}" for request in self._requests]
                    raise TimeoutError(f"no matching request within {timeout} s; received {paths}")
                self._changed.wait(left)

    # --- called by the handler ---------------------------------------------------------------------------

    def record(self, method: str, path: str, headers: dict[str, str], body: Any) -> Reply | None:
        """Record a request and choose its answer atomically, so that two threads cannot swap answers."""
        protocol = _protocol_of(path)
        errand_text = protocol.errand(body) if protocol and isinstance(body, dict) else None
        conversation = tuple(protocol.turns(body)) if protocol and isinstance(body, dict) else ()
        with self._changed:
            request = Request(
                number=len(self._requests) + 1,
                method=method,
                path=path,
                headers=headers,
                body=body,
                protocol=protocol.name if protocol else "",
                errand=protocol is None or errand_text is not None,
                conversation=conversation,
            )
            reply = None
            if errand_text is not None:
                reply = Reply(text=errand_text)
            elif protocol is not None:
                reply = self._next_reply(conversation)
            self._requests.append(request)
            self._changed.notify_all()
        return reply

    def _next_reply(self, conversation: tuple[Turn, ...]) -> Reply:
        self._answered += 1
        prompt = _newest_prompt(conversation)
        standing = next((Reply(text=text) for words, text in self._standing.items() if words in prompt), None)
        scripted = self._script.popleft() if self._script and standing is None else None
        reply = standing or scripted or directive(prompt) or Reply()
        return reply.with_default(f"{self._default_text} (#{self._answered})")

    def wait_while_held(self, hold: threading.Event, connection: socket.socket) -> None:
        """Wait until the test releases a held answer, the server closes, or the client disconnects."""
        deadline = time.monotonic() + _HOLD_SECONDS
        with self._changed:
            self._held += 1
            self._changed.notify_all()
        while not hold.wait(0.02) and not self._closing.is_set() and time.monotonic() < deadline:
            if _has_disconnected(connection):
                self.note_hang_up()
                return

    def wait_for_hold(self, timeout: float = 60.0) -> None:
        """Wait until an answer is held; TimeoutError if none is."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._held > 0, timeout):
                raise TimeoutError(f"no answer was held within {timeout} s")
            self._held = 0

    def note_hang_up(self) -> None:
        """Count a client that disconnected before its answer was complete."""
        with self._changed:
            self._hung_up += 1
            self._changed.notify_all()

    def wait_for_hang_up(self, timeout: float = 60.0) -> None:
        """Wait until a client disconnects before its answer is complete; TimeoutError if none does."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._hung_up > 0, timeout):
                raise TimeoutError(f"no client disconnected within {timeout} s")
            self._hung_up = 0


def _has_disconnected(connection: socket.socket) -> bool:
    """Whether the peer closed the connection: it is readable, and at its end."""
    readable = select.poll()  # select() knows only the first 1,024 files of a process, and a test run has many
    try:
        readable.register(connection, select.POLLIN)
        return bool(readable.poll(0)) and not connection.recv(1, socket.MSG_PEEK)
    except (OSError, ValueError):
        return True


def _newest_prompt(conversation: tuple[Turn, ...]) -> str:
    """Return the user's text at the end of the conversation; empty if a tool result is with it."""
    texts: list[str] = []
    for turn in reversed(conversation):
        if turn.kind == "tool_result":
            return ""
        if turn.role == "system":  # Claude Code inserts its own notes between the messages
            continue
        if turn.role != "user":
            break
        texts.append(turn.text)
    return "\n".join(reversed(texts))


def _protocol_of(path: str) -> Protocol | None:
    """Return the protocol of a path, or None if it is not a request to the model."""
    plain = path.split("?")[0]
    if plain.endswith("/messages"):
        return ANTHROPIC
    if plain.endswith("/chat/completions"):
        return CHAT
    if plain.endswith("/responses"):
        return RESPONSES
    if plain.endswith((":generateContent", ":streamGenerateContent")):
        return GEMINI
    if plain.endswith("/api/chat"):
        return OLLAMA
    return None


class _HttpServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64
    model: ModelServer

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(address, handler)
        self._open: set[socket.socket] = set()
        self._guard = threading.Lock()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._guard:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._guard:
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore disconnecting clients; any other error shows in the test's assertions."""

    def break_connections(self) -> None:
        """Close the connections that clients keep open, so that no thread outlives the test."""
        with self._guard:
            for connection in self._open:
                with suppress(OSError):  # the client may have closed it first
                    connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # otherwise each answer waits 40 ms for a delayed ACK

    @property
    def model(self) -> ModelServer:
        return cast(_HttpServer, self.server).model

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the requests are recorded."""

    def do_GET(self) -> None:
        self._record(None)
        path = self.path.split("?")[0]
        if path.endswith("/models"):
            # Both spellings at once: OpenAI's and Anthropic's `data`, Gemini's and Codex's `models`.
            self._send_json({"object": "list", "data": [{"id": "test-model", "object": "model"}], "models": []})
        elif path.endswith("/api/tags"):
            names = ("test-embed:latest", "test-model:latest")
            self._send_json({"models": [{"name": name, "model": name} for name in names]})
        else:
            self._send_json({"error": {"message": "not found"}}, 404)

    def do_HEAD(self) -> None:
        self._record(None)
        self._send_json({})

    def do_CONNECT(self) -> None:
        self._record(None)
        self.close_connection = True
        self._send_json({"error": {"message": "tests reach nothing but loopback"}}, 403)

    def do_POST(self) -> None:
        raw = self._read_body()
        body = _parse(raw)
        reply = self._record(body)
        path = self.path.split("?")[0]
        protocol = _protocol_of(path)
        if protocol is None or reply is None:
            if path.endswith("/count_tokens"):
                self._send_json({"input_tokens": len(raw) // 4 + 1})
            elif path.endswith(":countTokens"):
                self._send_json({"totalTokens": len(raw) // 4 + 1})
            else:
                self._send_json({})
        else:
            self._answer(protocol, body, reply, streamed=":streamGenerateContent" in path or bool(body.get("stream")))

    def _answer(self, protocol: Protocol, body: Any, reply: Reply, *, streamed: bool) -> None:
        if reply.hold is not None and (reply.hold_at == 0 or not streamed):
            self.model.wait_while_held(reply.hold, self.connection)
        if reply.status != 200:
            self._send_json(protocol.error(reply.status, reply.text or ""), reply.status, reply.retry_after)
        elif streamed:
            try:
                self._send_stream(protocol, protocol.stream(body, reply), reply)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True
                self.model.note_hang_up()
        elif reply.garbage_after is not None:
            self._send_whole(_GARBAGE, 200, None)
        elif reply.cut_after is not None:
            # Half of the announced length.
            data = json.dumps(protocol.whole(body, reply)).encode()
            self._send_whole(data[: len(data) // 2], 200, None, announced=len(data))
            self.close_connection = True
        else:
            self._send_json(protocol.whole(body, reply))

    def _record(self, body: Any) -> Reply | None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        return self.model.record(self.command, self.path, headers, body)

    def _read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            raw = b"".join(self._chunks())
        else:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        encoding = self.headers.get("Content-Encoding", "").lower()
        if encoding == "gzip":
            return gzip.decompress(raw)
        return zlib.decompress(raw) if encoding == "deflate" else raw

    def _chunks(self) -> Iterable[bytes]:
        while size := int(self.rfile.readline().split(b";")[0], 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def _send_json(self, answer: Json, status: int = 200, retry_after: str | None = None) -> None:
        # Programs wait between retries; zero keeps a test of a failing model short.
        self._send_whole(json.dumps(answer).encode(), status, retry_after or ("0" if status >= 500 else None))

    def _send_whole(self, data: bytes, status: int, retry_after: str | None, *, announced: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data) if announced is None else announced))
        if retry_after is not None:
            self.send_header("Retry-After", retry_after)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _send_stream(self, protocol: Protocol, events: list[Event], reply: Reply) -> None:
        lines = protocol.framing == "lines"
        self.send_response(200)
        self.send_header("Content-Type", "application/x-ndjson" if lines else "text/event-stream")
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number, (name, data) in enumerate(events):
            if number == reply.hold_at and number and reply.hold is not None:
                self.model.wait_while_held(reply.hold, self.connection)
            if number == reply.cut_after:
                self.close_connection = True
                return
            if number == reply.end_after:
                break
            if number == reply.garbage_after:
                self._send_event(name, _GARBAGE.decode(), lines)
            if number == reply.error_after:
                error = protocol.error(529, "the stream was told to fail")
                # A protocol with named events names this one too.
                self._send_event("error" if name else None, error, lines)
                break
            self._send_event(name, data, lines)
        if reply.hold is not None and len(events) == 1:
            self.model.wait_while_held(reply.hold, self.connection)
        self.wfile.write(b"0\r\n\r\n")

    def _send_event(self, name: str | None, data: Json | str, lines: bool) -> None:
        content = data if isinstance(data, str) else json.dumps(data)
        raw = f"{content}\n" if lines else (f"event: {name}\n" if name else "") + f"data: {content}\n\n"
        self.wfile.write(b"%x\r\n%s\r\n" % (len(raw.encode()), raw.encode()))
        self.wfile.flush()


def _parse(raw: bytes) -> Any:
    """Parse the body as JSON; keep anything else as text for the test to inspect."""
    try:
        return json.loads(raw or b"{}")
    except ValueError:
        return {"not_json": raw.decode("latin-1")}
