"""Why Gemini CLI would not run our hooks in a project: hooks are turned off, or the folder is not trusted."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from cortext.tools.shared.entries import NAME
from cortext.tools.shared.jsonc import read_object
from cortext.tools.shared.trust import at, trust_level


def hooks_off(folder: str, project: str, environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield each reason with its remedy; `folder` is the user's `.gemini`."""
    user_settings = os.path.join(folder, "settings.json")
    files = [(path, read_object(path)) for path in (user_settings, os.path.join(project, ".gemini", "settings.json"))]
    switches = [
        (path, value) for path, settings in files if (value := at(settings, "hooksConfig", "enabled")) is not None
    ]
    if switches and switches[-1][1] is False:  # the project's setting overrides the user's
        yield f"`hooksConfig.enabled` is false in {switches[-1][0]}", "set it to true, or remove it"
    for path, settings in files:
        names = at(settings, "hooksConfig", "disabled")
        if isinstance(names, list) and NAME in names:
            yield f"our hooks are disabled in {path}", f"run /hooks enable {NAME} in gemini"
    trusted = environ.get("GEMINI_CLI_TRUST_WORKSPACE")
    if trusted == "true" or at(files[0][1], "security", "folderTrust", "enabled") is False:
        return
    rules = environ.get("GEMINI_CLI_TRUSTED_FOLDERS_PATH") or os.path.join(folder, "trustedFolders.json")
    level = "DO_NOT_TRUST" if trusted == "false" else trust_level(read_object(rules), project)
    if level == "DO_NOT_TRUST":
        yield "it is set not to trust this folder, and ignores its settings", "run /permissions trust in gemini"
    elif not level:
        yield "this folder is not trusted yet", "start gemini in this folder once, and trust it when asked"
