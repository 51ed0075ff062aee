"""What keeps Gemini CLI from running our hooks in a project: hooks are turned off, or the folder is not trusted."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from cortext.tools.shared.entries import NAME
from cortext.tools.shared.jsonc import read_object


def hooks_off(folder: str, project: str, environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Each reason, and what to do about it; `folder` is the user's `.gemini`."""
    user = os.path.join(folder, "settings.json")
    both = [(path, read_object(path)) for path in (user, os.path.join(project, ".gemini", "settings.json"))]
    switches = [(path, value) for path, said in both if (value := _at(said, "hooksConfig", "enabled")) is not None]
    if switches and switches[-1][1] is False:  # the project's word goes over the user's
        yield f"`hooksConfig.enabled` is false in {switches[-1][0]}", "set it to true, or take it out"
    for path, said in both:
        names = _at(said, "hooksConfig", "disabled")
        if isinstance(names, list) and NAME in names:
            yield f"our hooks are disabled in {path}", f"in gemini: /hooks enable {NAME}"
    trusted = environ.get("GEMINI_CLI_TRUST_WORKSPACE")
    if trusted == "true" or any(_at(said, "security", "folderTrust", "enabled") is False for _, said in both[:1]):
        return
    rules = environ.get("GEMINI_CLI_TRUSTED_FOLDERS_PATH") or os.path.join(folder, "trustedFolders.json")
    level = "DO_NOT_TRUST" if trusted == "false" else _level(read_object(rules), project)
    if level == "DO_NOT_TRUST":
        yield "it is told not to trust this folder, and so ignores its settings", "in gemini: /permissions trust"
    elif not level:
        yield "it was not told yet to trust this folder", "start gemini there once, and trust the folder when it asks"


def _level(rules: Any, project: str) -> str:
    """What the longest rule about this folder says; empty where there is none."""
    longest, found = -1, ""
    for path, level in rules.items() if isinstance(rules, dict) else ():
        about = os.path.realpath(os.path.dirname(path) if level == "TRUST_PARENT" else path)
        inside = f"{os.path.realpath(project)}/".startswith(f"{about.rstrip('/')}/")
        if inside and len(path) > longest:
            longest, found = len(path), str(level)
    return found


def _at(value: Any, *steps: str) -> Any:
    for step in steps:
        value = value.get(step) if isinstance(value, dict) else None
    return value
