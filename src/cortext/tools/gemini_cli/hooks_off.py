"""Why Gemini CLI would not run our hooks in a project: hooks are turned off, or the folder is not trusted."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from cortext.tools.shared.entries import NAME
from cortext.tools.shared.jsonc import read_object


def hooks_off(folder: str, project: str, environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield each reason with its remedy; `folder` is the user's `.gemini`."""
    user_settings = os.path.join(folder, "settings.json")
    files = [(path, read_object(path)) for path in (user_settings, os.path.join(project, ".gemini", "settings.json"))]
    switches = [
        (path, value) for path, settings in files if (value := _at(settings, "hooksConfig", "enabled")) is not None
    ]
    if switches and switches[-1][1] is False:  # the project's setting overrides the user's
        yield f"`hooksConfig.enabled` is false in {switches[-1][0]}", "set it to true, or remove it"
    for path, settings in files:
        names = _at(settings, "hooksConfig", "disabled")
        if isinstance(names, list) and NAME in names:
            yield f"our hooks are disabled in {path}", f"run /hooks enable {NAME} in gemini"
    trusted = environ.get("GEMINI_CLI_TRUST_WORKSPACE")
    if trusted == "true" or _at(files[0][1], "security", "folderTrust", "enabled") is False:
        return
    rules = environ.get("GEMINI_CLI_TRUSTED_FOLDERS_PATH") or os.path.join(folder, "trustedFolders.json")
    level = "DO_NOT_TRUST" if trusted == "false" else _level(read_object(rules), project)
    if level == "DO_NOT_TRUST":
        yield "it is set not to trust this folder, and ignores its settings", "run /permissions trust in gemini"
    elif not level:
        yield "this folder is not trusted yet", "start gemini in this folder once, and trust it when asked"


def _level(rules: Any, project: str) -> str:
    """Return the trust level of the longest matching rule; empty if no rule matches this folder."""
    longest, found = -1, ""
    for path, level in rules.items() if isinstance(rules, dict) else ():
        rule_folder = os.path.realpath(os.path.dirname(path) if level == "TRUST_PARENT" else path)
        matches = f"{os.path.realpath(project)}/".startswith(f"{rule_folder.rstrip('/')}/")
        if matches and len(path) > longest:
            longest, found = len(path), str(level)
    return found


def _at(value: Any, *steps: str) -> Any:
    for step in steps:
        value = value.get(step) if isinstance(value, dict) else None
    return value
