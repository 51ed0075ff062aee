"""Which folders Gemini CLI and Qwen Code trust: both read the same rules, and ignore a project's settings otherwise."""

from __future__ import annotations

import os
from typing import Any


def trust_level(rules: Any, project: str) -> str:
    """Return the trust level of the longest matching rule; empty if no rule matches this folder."""
    longest, found = -1, ""
    for path, level in rules.items() if isinstance(rules, dict) else ():
        rule_folder = os.path.realpath(os.path.dirname(path) if level == "TRUST_PARENT" else path)
        matches = f"{os.path.realpath(project)}/".startswith(f"{rule_folder.rstrip('/')}/")
        if matches and len(path) > longest:
            longest, found = len(path), str(level)
    return found


def at(value: Any, *steps: str) -> Any:
    """Return the value under these keys; None if there is none."""
    for step in steps:
        value = value.get(step) if isinstance(value, dict) else None
    return value
