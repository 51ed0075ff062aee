"""A systemd user timer that runs `cortext sweep`, for pausing quiet conversations without running any command."""

from __future__ import annotations

import os
import shutil

from cortext.io import durable
from cortext.safety import languages

_SERVICE = """[Unit]
Description=Pause quiet cortext conversations

[Service]
Type=oneshot
ExecStart={command}
"""
_TIMER = """[Unit]
Description=Pause quiet cortext conversations, every five minutes

[Timer]
OnBootSec=5min
OnUnitActiveSec=5min

[Install]
WantedBy=timers.target
"""


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
    durable.replace_file(os.path.join(folder, "cortext-sweep.service"), [_SERVICE.format(command=command).encode()])
    durable.replace_file(path, [_TIMER.encode()])
    return path
