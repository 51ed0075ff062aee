"""Who may talk to the page: strangers, other sites, other names, other users and oversized requests get nothing."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import uvicorn.server
from starlette.types import Receive, Scope, Send

from cortext.testing.table import every_row
from cortext.web.app import routes
from cortext.web.main import MOST_STRANGERS, Connection
from cortext.web.security import BURST, FAILURES, Access, Guard, _address
from tests.faces.pond import Pond, make_pond
from tests.support.cli import SCRIPTS
from tests.support.waiting import wait_until
from tests.web.served import Served, serving

pytestmark = pytest.mark.req("PAGE-01")

PRIVATE = "Herons at the pond"


@pytest.fixture(scope="module")
def pond(tmp_path_factory: pytest.TempPathFactory) -> Pond:
    return make_pond(tmp_path_factory.mktemp("guard"))


def _paths(served: Served) -> list[str]:
    here = served.link(PRIVATE)
    return ["/", "/results", "/see", "/live", here, f"{here}/messages", f"{here}/m/0", f"{here}/export", f"{here}/live"]


def test_nothing_is_shown_without_the_cookie(served: Served) -> None:
    paths = _paths(served)
    stranger = Served(served.address, served.process)
    for path in paths:
        reply = stranger.get(path)
        assert reply.status == 401 and PRIVATE not in reply.text, path
    for cookie in ("cortext=x", f"{served.cookie}x", served.cookie.partition("=")[0] + "=", "a=b; ,;;="):
        assert stranger.get("/", Cookie=cookie).status == 401


def test_the_token_works_once(served: Served) -> None:
    again = Served(served.address, served.process)
    reply = again.open()
    assert reply.status == 401 and "set-cookie" not in reply.headers and "used already" in reply.text
    assert served.get(served.target).headers["location"] == "/"  # a reload in the browser that has the key


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(pond: Pond) -> None:
    access = Access(8137, ("127.0.0.1",))
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(access.set_cookie().split("; "))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_of_the_machine_gets_nothing(served: Served) -> None:
    """With everything they can see: the port, and the arguments of the processes."""
    ask = (
        "import sys, urllib.request, urllib.error\n"
        "try:\n    print(urllib.request.urlopen(sys.argv[1]).read())\n"
        "except urllib.error.HTTPError as error:\n    print(error.code, error.read())\n"
    )
    python = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable
    done = subprocess.run(
        [python, "-c", ask, f"http://{served.host}/"], user=65534, group=65534, extra_groups=[], cwd="/",
        env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout.startswith("401") and PRIVATE not in done.stdout, done.stderr
    shown = Path(f"/proc/{served.process}/cmdline").read_bytes()
    assert served.target.partition("token=")[2].encode() not in shown
    environment = subprocess.run(
        ["cat", f"/proc/{served.process}/environ"], user=65534, group=65534, extra_groups=[], cwd="/",
        capture_output=True, check=False,
    )  # fmt: skip
    assert environment.returncode != 0 and environment.stdout == b""


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "", "localhost"])
def test_a_foreign_host_name_is_refused(served: Served, host: str) -> None:
    """DNS rebinding: the browser would send the cookie of that name, and the name of the foreign host."""
    port = served.host.partition(":")[2]
    reply = served.get("/", Host=host.format(port=port))
    assert reply.status == 421 and PRIVATE not in reply.text
    assert served.get("/", Host=f"localhost:{port}").status == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "https://127.0.0.1", "null", "http://127.0.0.1:1", ""])
def test_another_origin_is_refused(served: Served, origin: str) -> None:
    assert served.get("/", Origin=origin).status == 403
    assert served.post(f"{served.link(PRIVATE)}/delete", Origin=origin).status == 403
    assert served.get("/results", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="no-cors").status == 403
    assert served.get("/", Origin=f"http://{served.host}").status == 200


def test_every_change_needs_the_secret_of_the_page(served: Served) -> None:
    here = served.link(PRIVATE)
    changes = [route for route in routes() if route.methods and "POST" in route.methods]
    assert len(changes) == 11
    for route in changes:
        path = route.path.replace("/c/{store}/{session}", here)
        for fields in (b"", b"csrf=", b"csrf=0000", b"title=x&at=1&key=x&confirmed=yes&tool=claude"):
            kind = {"Content-Type": "application/x-www-form-urlencoded"}
            reply = served.send("POST", path, fields, kind)
            assert reply.status == 400 and "expired" in reply.text, path
        assert served.get(path).status in (404, 405), path
    assert served.link(PRIVATE) == here


def test_a_header_may_carry_the_secret(served: Served) -> None:
    reply = served.send("POST", "/restore", b"key=none", {"X-CSRF-Token": served.csrf})
    assert reply.status == 404  # nothing with that key is in the trash


def test_oversized_requests_are_refused(served: Served) -> None:
    here = served.link(PRIVATE)
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    assert served.send("POST", f"{here}/title", b"x" * 70_000, kind).status == 413
    assert served.get("/?q=" + "x" * 5_000).status == 414
    assert served.send("POST", f"{here}/title", b"", {**kind, "Content-Length": "-1"}).status in (400, 413)
    chunked = served.send("POST", f"{here}/title", iter([b"x" * 40_000] * 3), kind)  # type: ignore[arg-type]
    assert chunked.status == 413
    many = "&".join(f"f{number}=1" for number in range(500)).encode()
    assert served.send("POST", f"{here}/title", many, kind).status == 400
    for method in ("PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"):
        assert served.send(method, here).status == 405


@pytest.mark.parametrize(
    "path",
    [
        "/static/..%2f..%2fmain.py", "/static/%2e%2e/app.py", "/static/../security.py", "/static/page.css%00.js",
        "/c/../../etc/passwd", "/c/{store}/..", "/c/{store}/%2e%2e%2f%2e%2e%2fetc%2fpasswd", "/c/{store}/..%5c..%5cx",
        "/c/x/001-plan-herons-at-the-pond", "/c/{store}/001-plan-herons-at-the-pond%00",
        "/c/{store}/001-plan-herons-at-the-pond/m/-1", "/c/{store}/001-plan-herons-at-the-pond/m/99999999999999999999",
        "/c/{store}/001-plan-herons-at-the-pond/continue/..%2f..%2fx",
    ],
)  # fmt: skip
def test_a_path_never_reaches_the_file_system(served: Served, path: str) -> None:
    reply = served.get(path.format(store=served.link(PRIVATE).split("/")[2]))
    assert reply.status in (400, 404) and "root:" not in reply.text and "import " not in reply.text


@pytest.mark.parametrize(
    "query", ["from=x", "from=-1", "from=9999999999999999999", "count=1e", "branch=%00", "at=%C2%BD"]
)
def test_a_wrong_number_is_a_usage_error(served: Served, query: str) -> None:
    assert served.get(f"{served.link(PRIVATE)}/messages?{query}").status in (200, 400)
    assert served.get(f"{served.link(PRIVATE)}?{query}").status in (200, 400)


def test_every_answer_forbids_what_is_not_ours(served: Served) -> None:
    stranger = Served(served.address, served.process)
    replies = [served.get(path) for path in ("/", "/see", "/nothing", "/static/page.js", served.link(PRIVATE))]
    for reply in [*replies, stranger.get("/")]:
        policy = reply.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "*" not in policy
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["referrer-policy"] == "same-origin"
        assert "access-control-allow-origin" not in reply.headers
    assert replies[0].headers["cache-control"] == "no-store"


def test_the_page_has_no_inline_script_or_style(served: Served) -> None:
    for path in ("/", "/see", served.link(PRIVATE), f"{served.link(PRIVATE)}/continue"):
        text = served.get(path).text
        assert not re.search(r"<script(?! type=\"module\" src=\"/static/)|\son\w+=|<style|\sstyle=", text), path
        assert not re.search(r"""(?:src|href|action)=["'](?:https?:)?//""", text), path


@pytest.mark.req("SAFE-13")
def test_wrong_passwords_from_one_address_do_not_stop_another() -> None:
    access = Access(8137, ("127.0.0.1",), "open sesame")

    async def tried(address: str, *texts: str) -> list[bool | None]:
        return await asyncio.gather(*(access.try_password(text, address) for text in texts))

    async def play() -> None:
        wrong = [f"guess {number}" for number in range(FAILURES + 1)]
        assert await tried("192.0.2.7", *wrong) == [False] * FAILURES + [None]
        assert await tried("192.0.2.7", "open sesame") == [None]
        assert await tried("192.0.2.8", "open sesame", "guess") == [True, False]

    asyncio.run(play())


@every_row(
    ("client", "expected"),
    [
        ("127.0.0.1", "loopback"), ("127.9.9.9", "loopback"), ("::1", "loopback"), ("::ffff:127.0.0.1", "loopback"),
        ("192.0.2.7", "192.0.2.7"), ("::ffff:192.0.2.7", "192.0.2.7"), ("2001:db8::7", "2001:db8::/64"), ("x", ""),
    ],
)  # fmt: skip
def test_all_addresses_of_one_client_count_as_one(client: str, expected: str) -> None:
    assert _address({"client": (client, 1)}) == expected


@pytest.mark.req("SAFE-13")
def test_half_sent_requests_do_not_keep_the_owner_out(pond: Pond) -> None:
    """By connections, or by passwords that never end: a new browser gets in, and one with the key stays in."""
    with serving(pond.env, pond.folder) as running, contextlib.ExitStack() as stack:
        address = running.host.partition(":")

        def flood(number: int) -> None:
            for _ in range(number):
                half = stack.enter_context(socket.create_connection((address[0], int(address[2])), 30))
                half.sendall(f"POST /login HTTP/1.1\r\nHost: {running.host}\r\n".encode())

        flood(130)
        assert running.open().status == 200
        assert running.get("/").status == 200
        flood(MOST_STRANGERS)
        assert running.get("/").status == 200 and running.get("/results").status == 200


@pytest.mark.req("SAFE-13")
def test_a_request_that_is_never_completed_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the cookie: before its head is complete, in its body, after an answer. With it: only an open answer."""
    monkeypatch.setattr("cortext.web.main.STRANGER_SECONDS", 0.05)
    access = Access(8137, ("127.0.0.1",), "open sesame")
    key = access.set_cookie().partition(";")[0]
    head = "POST /login HTTP/1.1\r\nHost: 127.0.0.1:8137\r\n"

    async def page(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"here", "more_body": True})

    async def run() -> None:
        config = uvicorn.Config(Guard(page, access), http=Connection.for_access(access), ws="none", lifespan="off")
        config.load()
        protocol: Any = config.http_protocol_class
        loop = asyncio.get_running_loop()
        state = uvicorn.server.ServerState()
        server = await loop.create_server(lambda: protocol(config, state, {}, loop), "127.0.0.1", 0)

        async def sent(text: str) -> asyncio.StreamReader:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writers.append(writer)
            writer.write(text.encode())
            return reader

        writers: list[asyncio.StreamWriter] = []
        owner = await sent(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:8137\r\nCookie: {key}\r\n\r\n")
        assert b"200" in await owner.readline()
        for half in (head[:20], head, f"{head}Content-Length: 99\r\n\r\npass"):
            with contextlib.suppress(ConnectionResetError):
                assert await (await sent(half)).read() == b""
        answered = await sent("GET / HTTP/1.1\r\nHost: 127.0.0.1:8137\r\n\r\n")
        with contextlib.suppress(ConnectionResetError):
            assert b"401" in await answered.readline()
            await answered.read()
        assert not owner.at_eof() and [*protocol.strangers] == []
        for writer in writers:
            writer.close()
        server.close()

    asyncio.run(asyncio.wait_for(run(), 60))


def test_a_flood_of_strangers_does_not_keep_the_owner_out() -> None:
    """Whoever has no key is slowed down; the right token and the browser that has the key are answered."""
    access = Access(8137, ("127.0.0.1",))
    now = 0.0
    guard = Guard(lambda *_: None, access, clock=lambda: now)  # type: ignore[arg-type]

    def asked(query: str = "", cookie: str = "", client: str = "192.0.2.7") -> tuple[int, str] | None:
        headers = [(b"host", b"127.0.0.1:8137"), (b"cookie", cookie.encode())]
        scope = {"headers": headers, "query_string": query.encode(), "method": "GET", "raw_path": b"/"}
        return guard._refusal({**scope, "client": (client, 1)})

    assert [asked("token=guess") for _ in range(BURST)] == [None] * BURST
    refused = (429, "too many requests")
    assert asked() == asked("token=guess") == refused
    assert asked(f"token={access.token}") is None and access.spend(access.token)
    assert asked(f"token={access.token}") == refused  # it works once
    key = access.set_cookie().partition(";")[0]
    assert [asked(cookie=key) for _ in range(2 * BURST)] == [None] * 2 * BURST
    assert asked(client="192.0.2.8") is None
    now = 1.0
    assert asked() is None


def test_the_browser_is_started_with_a_private_file(pond: Pond) -> None:
    """The token is neither an argument nor readable by others, and the file is gone when the server ends."""
    log, program = pond.home / "browser.log", pond.home / "browser"
    look = 'stat -c "%a %n" "${1#file://}" "$(dirname "${1#file://}")"'
    script = f'#!/bin/sh\n{{ echo "$@"; {look}; }} > {log}.new\nmv {log}.new {log}\n'
    program.write_text(script, encoding="utf-8")
    program.chmod(0o755)
    process = subprocess.Popen(
        [str(SCRIPTS / "cortext"), "web"], env={**pond.env, "BROWSER": str(program)}, cwd=pond.folder,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        token = process.stdout.readline().partition("token=")[2].strip()
        wait_until(log.exists, 30, "the browser opens")
        arguments, file, folder = log.read_text().splitlines()
        assert token and token not in arguments
        assert file.startswith("600 ") and folder.startswith("700 ")
        path = Path(file.partition(" ")[2])
        assert token in path.read_text()
        assert token.encode() not in Path(f"/proc/{process.pid}/environ").read_bytes()
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    assert not path.exists()


def test_another_address_needs_a_password(pond: Pond) -> None:
    from tests.support.cli import cortext

    refused = cortext("web", "--no-open", "--host", "127.0.0.1", cwd=pond.folder, env=pond.env)
    assert refused.code == 2 and "needs a password" in refused.err
    env = {**pond.env, "CORTEXT_WEB_PASSWORD": "open sesame"}
    with serving(env, pond.folder, "--host", "127.0.0.1") as running:
        assert "token" not in running.address
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        assert running.get("/").status == 401 and "Password" in running.get("/").text
        assert running.send("POST", "/login", b"password=wrong", kind).status == 401
        reply = running.send("POST", "/login", b"password=open+sesame", kind)
        assert reply.status == 303
        running.cookie = reply.headers["set-cookie"].partition(";")[0]
        assert PRIVATE in running.get("/").text


def _logged_in(running: Served, **headers: str) -> Served:
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    reply = running.send("POST", "/login", b"password=open+sesame", {**kind, **headers})
    assert reply.status == 303, reply
    running.cookie = reply.headers["set-cookie"].partition(";")[0]
    return running


def test_a_page_on_every_address_is_reached_by_any_of_them(pond: Pond) -> None:
    """By numbers and by this machine's name; a foreign name, as in DNS rebinding, is still refused."""
    env = {**pond.env, "CORTEXT_WEB_PASSWORD": "open sesame", "TERMINAL": "true"}
    with serving(env, pond.folder, "--host", "0.0.0.0") as running:
        port = running.host.partition(":")[2]
        _logged_in(running, Host=f"192.0.2.7:{port}", Origin=f"http://192.0.2.7:{port}")
        for host in (f"192.0.2.7:{port}", f"[2001:db8::7]:{port}", f"{socket.gethostname()}:{port}"):
            assert PRIVATE in running.get("/", Host=host).text, host
        for host in (f"evil.example:{port}", "192.0.2.7", "192.0.2.7:1", f"192.0.2.7.evil.example:{port}", ":", ""):
            assert running.get("/", Host=host).status == 421, host
        assert running.get("/", Host=f"192.0.2.7:{port}", Origin=f"http://192.0.2.8:{port}").status == 403
        here = running.link(PRIVATE)
        refused = running.post(f"{here}/terminal", {"tool": "claude", "confirmed": "yes"})
        assert refused.status == 400 and "no terminal can be opened from here" in refused.text


def test_a_proxy_gives_the_page_its_name(pond: Pond) -> None:
    from tests.support.cli import cortext

    assert cortext("web", "--no-open", "--name", "x.example", cwd=pond.folder, env=pond.env).code == 2  # no password
    env = {**pond.env, "CORTEXT_WEB_PASSWORD": "open sesame"}
    with serving(env, pond.folder, "--name", "x.example") as running:
        _logged_in(running, Host="x.example", Origin="https://x.example")
        assert PRIVATE in running.get("/", Host="x.example").text
        assert running.get("/", Host="x.example", Origin="https://evil.example").status == 403
        assert running.get("/", Host="y.example").status == 421
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        stranger = Served(running.address, running.process)
        chunked = stranger.send("POST", "/login", iter([b"x" * 40_000] * 3), kind)  # type: ignore[arg-type]
        assert chunked.status == 413
