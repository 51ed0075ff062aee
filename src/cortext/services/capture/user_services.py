"""What runs in the background for this user, for `cortext watch` and for `cortext sweep`.

The one is a service (a systemd unit, or a launchd agent on macOS), the other a systemd timer that pauses quiet
conversations without running any command.

The file is ours alone. The service manager is called if it is there; if not, or if it refuses, that is reported.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping

import msgspec

from cortext.io import durable
from cortext.safety import languages

UNIT = "cortext-watch.service"
LABEL = "cortext.watch"
_SECONDS = 30
# What tells cortext and many tools where their files are. Nothing that may contain a password.
_FOLDERS = ("CORTEXT_CONFIG", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")
_SYSTEMD = """[Unit]
Description=Capture the conversations of AI tools (cortext)

[Service]
ExecStart={command}
{environment}Restart=on-failure
RestartSec=30
Nice=10

[Install]
WantedBy=default.target
"""
_SWEEP = """[Unit]
Description=Pause quiet cortext conversations

[Service]
Type=oneshot
ExecStart={command}
"""
_SWEEP_TIMER = """[Unit]
Description=Pause quiet cortext conversations, every five minutes

[Timer]
OnBootSec=5min
OnUnitActiveSec=5min

[Install]
WantedBy=timers.target
"""


class Service(msgspec.Struct, kw_only=True):
    """The service's file, whether it exists, and what could not be done with the service manager."""

    path: str
    installed: bool
    problem: str = ""


def service() -> Service:
    """Return where the service's file is or would be."""
    path = _launchd_path() if _is_macos() else os.path.join(units_folder(), UNIT)
    return Service(path=path, installed=os.path.exists(path))


def install(program: list[str], variables: Iterable[str] = ()) -> Service:
    """Write the file, and start the service now and at every login. Repeating it updates the file.

    The service gets the present values of these environment variables, which say where the tools' files are.
    """
    found = service()
    values = {name: os.environ[name] for name in sorted({*_FOLDERS, *variables}) if os.environ.get(name)}
    durable.ensure_folder(os.path.dirname(found.path))
    durable.replace_file(found.path, [_launchd(program, values) if _is_macos() else _systemd(program, values)])
    if _is_macos():
        _run("launchctl", "bootout", _domain(), found.path)  # an older one; fails if there is none
        found.problem = _run("launchctl", "bootstrap", _domain(), found.path)
    else:
        found.problem = _systemctl("daemon-reload") or _systemctl("enable", UNIT) or _systemctl("restart", UNIT)
    found.installed = True
    return found


def uninstall() -> Service:
    """Stop the service and remove its file."""
    found = service()
    if not found.installed:
        return found
    if _is_macos():
        found.problem = _run("launchctl", "bootout", _domain(), found.path)
    else:
        found.problem = _systemctl("disable", "--now", UNIT)
    durable.remove(found.path)
    if not _is_macos() and not found.problem:
        found.problem = _systemctl("daemon-reload")
    found.installed = False
    return found


def _is_macos() -> bool:
    return sys.platform == "darwin"


def _systemd(program: list[str], values: Mapping[str, str]) -> bytes:
    lines = "".join(f"Environment={languages.systemd(f'{name}={value}')}\n" for name, value in values.items())
    command = languages.systemd_command([*program, "watch"])
    return _SYSTEMD.format(command=command, environment=lines).encode("utf-8", "surrogateescape")


def _launchd_path() -> str:
    return os.path.join(os.path.expanduser("~"), "Library", "LaunchAgents", f"{LABEL}.plist")


def _launchd(program: list[str], values: Mapping[str, str]) -> bytes:
    return languages.launchd(
        {
            "Label": LABEL,
            "ProgramArguments": [*program, "watch"],
            "EnvironmentVariables": dict(values),
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
            "ProcessType": "Background",
        }
    )


def _domain() -> str:
    return f"gui/{os.getuid()}"


def _systemctl(*words: str) -> str:
    return _run("systemctl", "--user", *words)


def _run(*command: str) -> str:
    """Run the service manager; return why it could not be done, or an empty string."""
    if shutil.which(command[0]) is None:
        return f"{command[0]} was not found"
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command[0]}: {error}"
    said = " ".join((done.stderr or done.stdout).split())
    return f"{' '.join(command)}: {said or f'exit status {done.returncode}'}" if done.returncode else ""


def units_folder() -> str:
    """Return the folder of this user's systemd units."""
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(base, "systemd", "user")


def timer_path() -> str:
    """Return the path of the timer, existing or not; it serves all of this user's workspaces."""
    return os.path.join(units_folder(), "cortext-sweep.timer")


def write_timer() -> str:
    """Write this user's unit files; return the timer's path. It is not started: that is up to the user."""
    path = timer_path()
    folder = os.path.dirname(path)
    durable.ensure_folder(folder)
    command = languages.systemd_command([shutil.which("cortext") or "cortext", "sweep", "--quiet"])
    durable.replace_file(os.path.join(folder, "cortext-sweep.service"), [_SWEEP.format(command=command).encode()])
    durable.replace_file(path, [_SWEEP_TIMER.encode()])
    return path
