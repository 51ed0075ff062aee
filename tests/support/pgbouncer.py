"""PgBouncer in front of a server of the tests, in transaction mode: Debian's packages, unpacked without root.

There are two: the one of this machine's Debian (12 has 1.18, without prepared statements in this mode), and with
`supporting` the one of Debian 13 (1.24, which supports them), which runs with the libraries of that release.
`python -m tests.support.pgbouncer` installs it; without access to Debian's archive, its tests are skipped and say so.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from tests.support import debian
from tests.support.installing import one_at_a_time
from tests.support.postgres import Postgres, free_port, other_user
from tests.support.waiting import wait_until

_FOLDER = Path(__file__).resolve().parents[2] / ".cache" / "debian"
_SUPPORTING = "trixie"
# With everything that it loads, because the libraries of another release do not mix.
_PACKAGES = (
    "pgbouncer", "libc6", "libcares2", "libevent-2.1-7t64", "libssl3t64", "libpam0g", "libsystemd0", "libcap2",
    "libaudit1", "libcap-ng0", "libzstd1", "zlib1g",
)  # fmt: skip


def program(*, supporting: bool = False) -> tuple[Path, Path]:
    """Return the executable and the folder of its libraries, installing them first; debian.NotToBeHad."""
    name = f"pgbouncer-{_SUPPORTING}" if supporting else "pgbouncer"
    folder = _FOLDER / name
    found = folder / "usr" / "sbin" / "pgbouncer"
    if not found.exists():
        packages, release = (_PACKAGES, _SUPPORTING) if supporting else (("pgbouncer",), "")
        with one_at_a_time(_FOLDER, name):
            if not found.exists():
                with debian.unpacked(_FOLDER, packages, with_missing=not supporting, release=release) as root:
                    shutil.rmtree(folder, ignore_errors=True)
                    root.rename(folder)
    return found, next(folder.glob("usr/lib/*-linux-gnu*"))


class PgBouncer:
    """A pooler whose clients share `size` sessions of the server; a `supporting` one keeps prepared statements."""

    def __init__(self, server: Postgres, *, size: int = 3, supporting: bool = False) -> None:
        self._server = server
        self.port = free_port()
        path, libraries = program(supporting=supporting)
        self.folder = tempfile.mkdtemp(prefix="cortext-pooler-")
        os.chmod(self.folder, 0o755)
        login = urlsplit(server.url)
        Path(self.folder, "users").write_text(f'"{login.username}" "{login.password}"\n', encoding="utf-8")
        Path(self.folder, "ini").write_text(
            f"[databases]\n* = host={server.host} port={server.port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
            f"listen_port = {self.port}\nunix_socket_dir =\nauth_type = scram-sha-256\n"
            f"auth_file = {self.folder}/users\npool_mode = transaction\ndefault_pool_size = {size}\n"
            "server_login_retry = 0.2\n" + ("max_prepared_statements = 100\n" if supporting else ""),
            encoding="utf-8",
        )
        for name in ("users", "ini"):
            os.chmod(os.path.join(self.folder, name), 0o644)  # whatever the umask is
        # Copied, because the user it runs as may not be able to read this repository.
        executable = shutil.copy(path, os.path.join(self.folder, "pgbouncer"))
        copied = os.path.join(self.folder, "lib")
        os.mkdir(copied)
        os.chmod(copied, 0o755)  # whatever the umask is
        for library in libraries.glob("*.so*"):
            shutil.copy(library, copied, follow_symlinks=False)
        command, environment = [executable], {"PATH": os.defpath, "LD_LIBRARY_PATH": copied}
        if supporting:
            loader = next(Path(copied).glob("ld-linux-*"))
            command, environment = [str(loader), "--library-path", copied, executable], {"PATH": os.defpath}
        said = subprocess.run([*command, "-V"], env=environment, capture_output=True, text=True, check=True).stdout
        self.version = re.sub(r"\D*([\d.]+).*", r"\1", said.splitlines()[0])
        with open(os.path.join(self.folder, "log"), "wb") as log:
            self._process = subprocess.Popen(
                [*command, os.path.join(self.folder, "ini")],
                env=environment, stdout=log, stderr=log, cwd=self.folder, **other_user(),
            )  # fmt: skip
        wait_until(self._answers, 20, self.log)

    def _answers(self) -> bool:
        """Whether it accepts connections; fail if it has ended."""
        try:
            socket.create_connection(("127.0.0.1", self.port), 5).close()
        except OSError:
            assert self._process.poll() is None, self.log()
            return False
        return True

    @property
    def url(self) -> str:
        """The URL of the server through the pooler."""
        return self._server.at(self.port)

    def log(self) -> str:
        """Return the pooler's log."""
        return Path(self.folder, "log").read_text(encoding="utf-8", errors="replace")[-3000:]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(5)
        shutil.rmtree(self.folder, ignore_errors=True)


def main() -> int:
    """Install both and print where they are; a machine without them can run every other test."""
    for supporting in (False, True):
        try:
            sys.stdout.write(f"pgbouncer    {program(supporting=supporting)[0]}\n")
        except debian.NotToBeHad as error:
            sys.stdout.write(f"pgbouncer    not available here: {error}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
