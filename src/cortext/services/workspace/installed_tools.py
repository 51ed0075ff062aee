"""Which AI tools are installed: asked in parallel, because a program takes a second to print its version."""

from __future__ import annotations

from collections.abc import Sequence

from cortext.tools.base import Detected, TranscriptSource


def detect_all(tools: Sequence[TranscriptSource]) -> list[Detected | None]:
    """Return what each of these tools says about itself, in order; None if its adapter fails."""
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
    """Return a note about a version that our tests do not cover; empty if it is tested or not installed."""
    if found is None or found.tested:
        return ""
    if not found.version:
        return f"the installed version of {tool.title} is unknown; cortext is tested with {tool.tested_version}"
    return f"{tool.title} {found.version} was not tested with cortext; {tool.tested_version} was"
