"""Which AI tools are installed here: asked all at once, because a program takes a second to tell its version."""

from __future__ import annotations

from collections.abc import Sequence

from cortext.tools.base import Detected, TranscriptSource


def detect_all(tools: Sequence[TranscriptSource]) -> list[Detected | None]:
    """What each of these tools says about itself, in their order; nothing where its adapter fails."""
    from concurrent.futures import ThreadPoolExecutor

    if not tools:
        return []
    with ThreadPoolExecutor(len(tools)) as pool:
        return list(pool.map(_detect, tools))


def _detect(tool: TranscriptSource) -> Detected | None:
    try:
        return tool.detect()
    except Exception:  # noqa: BLE001 (another package's adapter may raise anything)
        return None


def untested(tool: TranscriptSource, found: Detected | None) -> str:
    """What to tell of a version that our tests do not run; empty where it is the tested one, or none."""
    if found is None or found.tested:
        return ""
    return f"{tool.title} {found.version or '(unknown version)'} was not tested with cortext; {tool.tested_version} was"
