"""What a workspace needs on this machine: git's merge driver, our command on PATH, the hooks of its AI tools."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence

from cortext.config.trust import settings_of
from cortext.distribution import install_hint
from cortext.errors import CortextError
from cortext.services.library.stores import NamedStore
from cortext.services.workspace import mcp_sdk
from cortext.services.workspace import merge_driver as merging
from cortext.services.workspace.committing import uncommitted
from cortext.services.workspace.doctor import Finding
from cortext.services.workspace.git import Git
from cortext.services.workspace.setup import load_manifest
from cortext.tools.base import Hooks, Installer, TranscriptSource
from cortext.tools.shared.entries import NAME


def workspace_findings(
    named_store: NamedStore, tools: Sequence[TranscriptSource], program: Sequence[str]
) -> Iterator[Finding]:
    """Yield what is missing here, each with what to do about it. Nothing is changed."""

    def warn(what: str, todo: str, session: str = "") -> Finding:
        return Finding(store=named_store.label, level="warning", what=what, todo=todo, session=session)

    for session_id, why in uncommitted(named_store.root).items():
        yield warn(f"saved, but not committed to git yet: {why}", f"cortext stop {session_id}", session_id)
    try:
        manifest = load_manifest(named_store.root)
    except CortextError as error:
        yield warn(error.message, error.hint or "restore it from git")
        return
    if not manifest.version:
        return  # not set up by init: nothing is expected
    if shutil.which(program[0]) is None:
        yield warn(
            f"`{program[0]}` is not on PATH: hooks, MCP server and merge driver of this workspace cannot call it",
            "add the folder that it is installed in to PATH, for the AI tools too",
        )
    yield from (warn(*found) for found in _git_findings(named_store.root))
    missing = [path for path in manifest.files if not os.path.lexists(os.path.join(named_store.root, path))]
    if missing:
        names = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
        yield warn(
            f"files installed by `cortext init` are missing, and with them their commands or hooks: {names}",
            f"cortext upgrade, in {named_store.root}",
        )
    set_up = [tool for tool in tools if isinstance(tool, Installer) and tool.name in manifest.tools]
    try:
        settings_of(named_store.root)
    except CortextError as error:
        yield warn(error.message, error.hint or "correct or remove that file")
        return
    for tool in set_up:
        if tool.detect() is not None:
            yield from (warn(*found) for found in _tool_findings(named_store.root, tool, program))


def _git_findings(root: str) -> Iterator[tuple[str, str]]:
    git = Git(root)
    if not git.is_repository():
        return
    if not git.config(f"{merging.SECTION}.driver"):
        yield (
            "git has no merge driver here: conversations that two machines continue will conflict",
            f"run any cortext command in {root}, or `cortext upgrade`",
        )
    if not merging.has_attributes(root):
        yield "its .gitattributes does not name the merge driver and the line ends", f"cortext upgrade, in {root}"
    tracked = git.tracked_although_ignored("conversations")
    if tracked:
        yield (
            f"{len(tracked)} files of conversations are ignored by git but still tracked: changes to them stay out",
            f"git rm -r --cached {os.path.commonpath(tracked)}",
        )


def _tool_findings(root: str, tool: Installer, program: Sequence[str]) -> Iterator[tuple[str, str]]:
    try:
        missing = tool.install_settings(root, program, server=mcp_sdk.is_installed(), dry_run=True)
    except CortextError as error:
        yield f"{tool.title}: {error.message}", error.hint
        return
    if missing:
        names = ", ".join(os.path.relpath(path, root) for path in missing)
        yield f"{tool.title}: our hooks or MCP entry are not in {names}", f"cortext upgrade, in {root}"
        return
    if not mcp_sdk.is_installed() and NAME in tool.mcp_servers(root):
        yield f"{tool.title} starts our MCP server, but the MCP SDK is not installed", install_hint(mcp_sdk.EXTRA)
    for why, todo in tool.hooks_off(root) if isinstance(tool, Hooks) else ():
        yield f"{tool.title} does not run our hooks: {why}. Its sessions are captured only by `cortext sync`", todo
