"""The model provider to record in a session that we write for Codex.

Codex does not open a session with an unknown provider and, in a home that was used before, none without a provider.
So it is the provider in the user's settings, else that of the user's own sessions.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable
from typing import Any

from cortext.io import files as fsio
from cortext.tools.codex import pages as codex_pages
from cortext.tools.codex.pages import Page

DEFAULT = "openai"  # the default of Codex
_SESSIONS_CHECKED = 20


def provider_for(folder: str, pages: Iterable[Page]) -> str:
    """Return the provider in the settings of this home, else that of the newest session that Codex itself started."""
    return _configured(os.path.join(folder, "config.toml")) or _used(pages) or DEFAULT


def _configured(path: str) -> str:
    try:
        settings: dict[str, Any] = tomllib.loads(fsio.read_text(path))
    except (OSError, ValueError, RecursionError):  # Codex reports it
        return ""
    profiles = settings.get("profiles")
    profile = profiles.get(settings.get("profile")) if isinstance(profiles, dict) else None
    chosen = profile.get("model_provider") if isinstance(profile, dict) else None
    chosen = chosen or settings.get("model_provider")
    return chosen if isinstance(chosen, str) else ""


def _used(pages: Iterable[Page]) -> str:
    newest = sorted(pages, key=lambda page: page.when, reverse=True)
    for page in newest[:_SESSIONS_CHECKED]:
        head = codex_pages.head_of(page.path)
        if head is not None and head.mark is None and head.meta.model_provider:
            return head.meta.model_provider
    return ""
