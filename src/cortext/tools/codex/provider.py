"""The model provider of a session of Codex: the one it was held with, and the one for a session that we write.

Codex opens a session only while its provider is the current one, and in a home that was used before, none without a
provider. The current one comes from the user's settings, never from a project's.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Sequence
from typing import Any

from cortext.io import durable
from cortext.tools.codex import pages as codex_pages
from cortext.tools.codex.pages import Page

DEFAULT = "openai"  # the default of Codex
_MACHINE = "/etc/codex"  # the settings of the machine: managed ones, and defaults
# The settings that a turn began with: they replace those of the first line.
_APPLIED = re.compile(rb'"type":"thread_settings_applied".*?"model_provider_id":"([^"\\]*)"')


def current_provider(folder: str) -> str:
    """Return the provider in the settings of this home or machine, else the default; empty if they are unreadable."""
    for path in (f"{_MACHINE}/managed_config.toml", os.path.join(folder, "config.toml"), f"{_MACHINE}/config.toml"):
        try:
            chosen = _chosen(tomllib.loads(durable.read_text(path)))
        except FileNotFoundError:
            continue
        except (OSError, ValueError, RecursionError):  # Codex reports it
            return ""
        if chosen:
            return chosen
    return DEFAULT


def _chosen(settings: dict[str, Any]) -> str:
    profiles = settings.get("profiles")
    profile = profiles.get(settings.get("profile")) if isinstance(profiles, dict) else None
    chosen = profile.get("model_provider") if isinstance(profile, dict) else None
    chosen = chosen or settings.get("model_provider")
    return chosen if isinstance(chosen, str) else ""


def provider_of(pages: Sequence[Page]) -> str:
    """Return the provider that a thread was last held with, from its pages in order; empty if they name none."""
    for page in reversed(pages):
        head = codex_pages.head_of(page.path)
        if found := _applied(page.path) or ((head.meta.model_provider or "") if head is not None else ""):
            return found
    return ""


def _applied(path: str) -> str:
    last = b""
    if path.endswith(codex_pages.COMPRESSED):
        return ""
    try:
        with open(path, "rb", opener=durable.plain_file) as file:
            for line in file:
                found = _APPLIED.search(line, 0, 4096)
                last = found[1] if found is not None else last
    except OSError:
        return ""
    return last.decode("utf-8", "replace")
