"""Which AI tools are installed, what they have stored, and what was proven about pairs of them: a conversation held in
one program and resumed in another (docs/pairs.md). Whether the MCP SDK is installed, which `cortext mcp` needs.

Programs are asked in parallel, because each takes a second to print its version. `python -m tests.tools.matrix` runs
the pairs with the real programs and writes `pairs.json` beside this module.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import msgspec

from cortext.distribution import install_hint
from cortext.errors import ConfigError
from cortext.tools import registry
from cortext.tools.base import Detected, Hooks, NativeWriter, TranscriptSource, proof_of

MCP_EXTRA = "mcp"
PAIRS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pairs.json")
SOURCES = Path(registry.__file__).parents[1]
# What every pair uses, beside the adapters of its two tools.
_COMMON = ("tools/shared", "model/turns.py", "services/capture/copies.py", "services/resume")


class ProvenPairs(msgspec.Struct, kw_only=True):
    """One tool's pairs, that with itself included: how many were run and how many passed, from it and to it.

    `date` is the day of the last run, and `code` a hash of the code that it was run with (`code_of`).
    """

    version: str
    date: str
    code: str = ""
    run_from: int = 0
    passed_from: int = 0
    run_to: int = 0
    passed_to: int = 0


def proven_pairs() -> dict[str, ProvenPairs]:
    """Return the pairs by tool, as they ship with this version; empty if none were run."""
    try:
        with open(PAIRS, "rb") as file:
            return msgspec.json.decode(file.read(), type=dict[str, ProvenPairs])
    except FileNotFoundError:
        return {}


def code_files(*names: str) -> list[Path]:
    """Return the files that carry conversations between these tools."""
    adapters = ["/".join(registry.BUILT_IN[name].partition(":")[0].split(".")[1:-1]) for name in sorted(set(names))]
    files = [path for part in (*adapters, *_COMMON) for path in (SOURCES / part, *sorted((SOURCES / part).rglob("*")))]
    return [path for path in files if path.suffix in (".py", ".js")]


@cache
def code_of(*names: str) -> str:
    """Return a hash of the code that carries conversations between these tools, as it was when first asked for."""
    code = hashlib.sha256()
    for path in code_files(*names):
        code.update(f"{path.relative_to(SOURCES)}\0".encode() + path.read_bytes())
    return code.hexdigest()[:16]


def when_run(pairs: Mapping[str, ProvenPairs]) -> str:
    """Return when these pairs were run, and whether the code that carries conversations has changed since."""
    is_older = any(found.code != code_of(name) for name, found in pairs.items())
    day = max((found.date for found in pairs.values()), default="")
    return f"last on {day}{', before later changes to the code that carries conversations' if is_older else ''}"


class ToolHere(msgspec.Struct, kw_only=True):
    """What there is of one tool on this machine. `version` is empty if the tool is not installed."""

    name: str
    title: str
    version: str
    tested: bool  # whether our tests run against this version
    tested_version: str
    tested_with: str  # the program, or only samples of its format
    conversations: int
    supported: list[str]  # read, resume, hooks
    pairs: ProvenPairs | None = None  # what was proven with other tools, if it was part of that run


# Called with the name of the tool and the error if its conversations cannot be listed.
Failed = Callable[[str, Exception], None]


def overview(tools: Sequence[TranscriptSource], failed: Failed) -> list[ToolHere]:
    """Return what there is of each of these tools, in order."""
    pairs = proven_pairs()
    found = zip(tools, detect_all(tools), strict=True)
    return [_tool_here(tool, detected, failed, pairs.get(tool.name)) for tool, detected in found]


def _tool_here(tool: TranscriptSource, found: Detected | None, failed: Failed, pairs: ProvenPairs | None) -> ToolHere:
    try:
        stored = sum(1 for _ in tool.transcripts())
    except Exception as error:  # noqa: BLE001 (another package's adapter may raise anything)
        stored = 0
        failed(tool.name, error)
    return ToolHere(
        name=tool.name,
        title=tool.title,
        version=(found.version or "unknown") if found else "",
        tested=bool(found and found.tested),
        tested_version=tool.tested_version,
        tested_with=proof_of(tool),
        conversations=stored,
        supported=_supported(tool),
        pairs=pairs,
    )


def _supported(tool: TranscriptSource) -> list[str]:
    """Return what can be done with a tool: every adapter reads."""
    return ["read", *(["resume"] * isinstance(tool, NativeWriter)), *(["hooks"] * isinstance(tool, Hooks))]


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
    """Return a note about a version that our tests do not cover; empty if it is tested or not installed.

    Tools that are only tested with samples have no such version.
    """
    if found is None or found.tested or proof_of(tool) == "samples":
        return ""
    if not found.version:
        return f"the installed version of {tool.title} is unknown; cortext is tested with {tool.tested_version}"
    return f"{tool.title} {found.version} was not tested with cortext; {tool.tested_version} was"


def has_mcp_sdk() -> bool:
    """Whether `cortext mcp` can run here."""
    return find_spec("mcp") is not None


def require_mcp_sdk() -> None:
    """Raise ConfigError if it cannot."""
    if not has_mcp_sdk():
        raise ConfigError(
            "the MCP server needs the MCP SDK, which is not installed",
            kept="commands, hooks and slash commands work without it",
            hint=install_hint(MCP_EXTRA),
        )
