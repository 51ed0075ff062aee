"""A key is sent where the user said, and does not follow a redirect to another server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from cortext.agents.llm.provider import models
from cortext.errors import ModelRefused
from cortext.index.search.embed_remote import EndpointModel
from tests.agents.llm.kit import PROVIDERS, Outcome, ask, model

KEY = "a-key-of-no-known-form-5b01"


class Server(ThreadingHTTPServer):
    """Answers with a redirect, or with lists of models and vectors; records what it was sent."""

    daemon_threads = True

    def __init__(self, to: str = "") -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.to, self.heard = to, list[tuple[str, str]]()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        server: Any = self.server
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        server.heard.append((self.path, str(self.headers)))
        body = json.dumps({"data": [{"id": "chat", "index": 0, "embedding": [1.0, 0.0]}]}).encode()
        if server.to and not self.path.endswith("/here"):
            self.send_response(302)
            self.send_header("Location", server.to)
            body = b""
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


@pytest.fixture
def elsewhere() -> Iterator[Server]:
    with Server() as server:
        yield server
        server.shutdown()


@pytest.fixture
def sends_on(elsewhere: Server) -> Iterator[Server]:
    with Server(f"{elsewhere.url}/taken") as server:
        yield server
        server.shutdown()


@pytest.mark.req("SAFE-02", "MODEL-02")
def test_a_key_does_not_follow_a_redirect(elsewhere: Server, sends_on: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert models(f"{sends_on.url}/v1/models", KEY) == []
    with pytest.raises(ModelRefused) as caught:
        EndpointModel("endpoint", "vectors", f"{sends_on.url}/v1").embed(["words"])
    assert "the API key is not sent along" in caught.value.hint
    for provider in PROVIDERS:
        assert Outcome(model(provider, sends_on.url), ask("hello")).error is not None
    assert elsewhere.heard == []
    assert sum(KEY in headers for _, headers in sends_on.heard) == 2


def test_a_redirect_on_the_same_server_is_followed(elsewhere: Server) -> None:
    elsewhere.to = f"{elsewhere.url}/here"
    assert models(f"{elsewhere.url}/v1/models", KEY) == ["chat"]
