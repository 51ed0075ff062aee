"""What the hooks of the AI tools have in common: the fields of a payload, and the answer that adds to a prompt."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from cortext.tools.base import HookEvent
from cortext.tools.shared.commands import is_resume_block, typed_command
from cortext.tools.shared.jsonc import read_object


def text_of(payload: Mapping[str, Any], name: str) -> str:
    """Return a field of a hook's payload; empty if it is missing or not a string."""
    value = payload.get(name)
    return value if isinstance(value, str) else ""


def event_of(payload: Mapping[str, Any], kinds: Mapping[str, str]) -> HookEvent | None:
    """Return the event of a payload of Claude Code's form; None if it names no event or no session."""
    event, key = text_of(payload, "hook_event_name"), text_of(payload, "session_id")
    if not event or not key:
        return None
    kind = kinds.get(event, "other")
    if kind == "started" and text_of(payload, "source") == "compact":
        kind = "compacted"  # the same session goes on, and this event may give the model something
    text = text_of(payload, "prompt" if kind in ("prompt", "command") else "last_assistant_message")
    command, arguments = text_of(payload, "command_name"), text_of(payload, "command_args")
    typed = re.fullmatch(r"/(\S+)\s*(.*)", text, re.DOTALL) if kind == "prompt" else None
    if typed:
        command, arguments = typed[1], typed[2]
    if kind == "compacted":
        text = text_of(payload, "compact_summary")
    return HookEvent(
        kind=kind,
        key=key,
        path=text_of(payload, "transcript_path"),
        project=text_of(payload, "cwd"),
        text=text,
        command=command.removeprefix("/"),
        arguments=arguments,
    )


def typed_event(payload: Mapping[str, Any], kinds: Mapping[str, str], typed: str = "") -> HookEvent | None:
    """Return the same for a tool whose payload has a prompt as our command expanded it, or as we launched it.

    `typed` is what the user typed, if the payload says that, too.
    """
    prompt = text_of(payload, "prompt")
    event = event_of({**payload, "prompt": typed or typed_command(prompt) or prompt}, kinds)
    if event is not None and event.kind == "prompt" and is_resume_block(event.text):
        event.kind = "started"  # we launched it with this prompt; the user did not type it
    return event


def additional_context(event: str, context: str) -> str:
    """Return the answer that makes Claude Code, Gemini CLI, Codex and Qwen Code add a text to a prompt."""
    answer = {"hookSpecificOutput": {"hookEventName": event, "additionalContext": context}}
    return msgspec.json.encode(answer).decode("utf-8")


class ShowsSystemMessage:
    """A tool that shows its user the `systemMessage` of a hook's answer: Claude Code, Gemini CLI and Codex do."""

    def with_note(self, answer: str, note: str) -> str:
        """Return the answer of a hook, which may be empty, with a line for the user."""
        noted: bytes = msgspec.json.encode({**msgspec.json.decode(answer or "{}"), "systemMessage": note})
        return noted.decode("utf-8")


def all_hooks_off(paths: Iterable[str]) -> list[tuple[str, str]]:
    """Report `disableAllHooks` in these settings files. The last one that sets it decides."""
    off = ""
    for path in paths:
        settings = read_object(path)
        if "disableAllHooks" in settings:
            off = path if settings["disableAllHooks"] is True else ""
    return [(f"`disableAllHooks` is true in {off}", "set it to false or remove it")] if off else []


# ── folders that a tool trusts ─────────────────────────────────────────────────────────────────────


def trust_level(rules: Any, project: str) -> str:
    """Return the trust level of the longest matching rule; empty if no rule matches this folder."""
    longest, found = -1, ""
    for path, level in rules.items() if isinstance(rules, dict) else ():
        rule_folder = os.path.realpath(os.path.dirname(path) if level == "TRUST_PARENT" else path)
        matches = f"{os.path.realpath(project)}/".startswith(f"{rule_folder.rstrip('/')}/")
        if matches and len(path) > longest:
            longest, found = len(path), str(level)
    return found
