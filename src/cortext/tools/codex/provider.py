"""Which model provider a session that we write for Codex is to name.

Codex opens no session whose provider it does not know, and one that names none is not opened in a home that was
used before. So it is the provider that the user has set, else the one that his own sessions name.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable
from typing import Any

from cortext.io import files as fsio
from cortext.tools.codex import pages as codex_pages
from cortext.tools.codex.pages import Page

DEFAULT = "openai"  # what Codex uses where nothing is set
_LOOKED_AT = 20  # so many of the newest sessions are asked


def provider_for(folder: str, pages: Iterable[Page]) -> str:
    """The provider in the settings of this home, else in the newest session that Codex itself began."""
    return _configured(os.path.join(folder, "config.toml")) or _used(pages) or DEFAULT


def _configured(path: str) -> str:
    try:
        settings: dict[str, Any] = tomllib.loads(fsio.read_text(path))
    except (OSError, ValueError, RecursionError):  # Codex itself will complain about it
        return ""
    profiles = settings.get("profiles")
    profile = profiles.get(settings.get("profile")) if isinstance(profiles, dict) else None
    chosen = profile.get("model_provider") if isinstance(profile, dict) else None
    chosen = chosen or settings.get("model_provider")
    return chosen if isinstance(chosen, str) else ""


def _used(pages: Iterable[Page]) -> str:
    newest = sorted(pages, key=lambda page: page.when, reverse=True)
    for page in newest[:_LOOKED_AT]:
        head = codex_pages.head_of(page.path)
        if head is not None and head.mark is None and head.meta.model_provider:
            return head.meta.model_provider
    return ""
