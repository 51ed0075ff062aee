"""Our commands in the AI tools, and the hooks that report them.

Commands as files, as skills (`/workspace.brainstorm` as `workspace-brainstorm`), and as a user typed them, recognised
in a prompt to which cortext or a command added text. Of hooks, the fields of a payload, and the answer that adds to a
prompt.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from cortext.errors import UsageError
from cortext.io import durable
from cortext.model.asides import own_command
from cortext.safety.framing import BEGIN
from cortext.safety.languages import shell
from cortext.tools.base import CommandFile, HookEvent
from cortext.tools.shared.jsonc import read_object

RESUMED = BEGIN
# The marker of our block begins a line. A user who only mentions it writes an ordinary message.
_RESUME_BLOCK = re.compile(rf"^{re.escape(RESUMED)}", re.MULTILINE)
# The marker of our command files in the prompt that they expand to: hooks and transcripts contain only the expansion.
_COMMAND_MARK = re.compile(r"<!-- cortext:command /?([\w.:-]+) -->(.*?)<!-- cortext:end -->", re.DOTALL)
# After this one the tool adds what was typed, if that is more than the command. It is last: a file stands before it.
_TYPED_MARK = re.compile(r".*<!-- cortext:typed ([\w.:-]+) -->\s*(?:/\S+(.*))?\Z", re.DOTALL)
_PLAIN_PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)*", re.ASCII)
_COMMAND_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}")
_MENTION = re.compile(r"(?<![\w.$/])/workspace\.(?=\w)")
_LONGEST_DESCRIPTION = 1_000
_SKILL = "skills/cortext/SKILL.md"
_FILES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "workspace_files")


def is_resume_block(text: str) -> bool:
    """Whether a text of role user is the context block that we added at a resume."""
    return RESUMED in text and _RESUME_BLOCK.search(text) is not None


def typed_command(text: str) -> str:
    """Return the slash command that expanded to this prompt; empty if none of ours did."""
    if "<!-- cortext:" not in text:
        return ""
    mark = _TYPED_MARK.match(text) or _COMMAND_MARK.search(text)
    return f"/{mark[1]} {(mark[2] or '').strip()}".rstrip() if mark else ""


def command_in(text: str) -> tuple[str, str]:
    """Return the name (`workspace.brainstorm`) and the arguments of our command in a prompt; empty if it has none."""
    name, arguments = own_command(text)
    return (f"workspace.{name}", arguments) if name else ("", "")


def marked_prompt(command: CommandFile) -> str:
    """Return the prompt of a slash command for Gemini CLI and Qwen Code, with a marker by which it is recognised.

    They insert the file with the text themselves. In a command file with `{{args}}` or `!{` they then also run what the
    inserted text has in `!{}`, so ours has neither, and they add what was typed at the end. Our hook adds the output of
    `run`: the tools' own syntax for that asks for confirmation, fails in headless mode, and truncates a long output.
    """
    if path := file_of(command):
        typed = f"the text after `/{command.name}` at the end of this message (nothing, if it does not end so)"
        return f"@{{{path}}}\n\n{around_the_file(path, typed)}\n\n<!-- cortext:typed {command.name} -->\n"
    # The tools would expand these three: a shell command, the contents of a file, the arguments.
    text = re.sub(r"([!@])\{", r"\1 {", without_run(command.text)).replace("{{args}}", "{ {args}}")
    return marked(text.replace("{arguments}", "{{args}}"), command.name, "{{args}}")


def file_of(command: CommandFile) -> str:
    """Return the file with a command's text; empty if there is none, or a tool might not take its name as it is."""
    return command.file if _PLAIN_PATH.fullmatch(command.file) else ""


def around_the_file(path: str, arguments: str) -> str:
    """Return what a command file says to the model if the tool inserts the file; `arguments` says where they are."""
    return (
        f"The prompt of this command is the file `{path}`, which comes with this message: follow it. If it is missing, "
        f"read it first. `{{arguments}}` in it stands for {arguments}"
    )


def without_run(text: str) -> str:
    """Return the text of a command without the place of the output of `run`, which our hook adds."""
    return text.replace("{run}\n\n", "").replace("{run}", "")


def marked(text: str, name: str, arguments: str) -> str:
    """Return the text of a command file with our marker, in which the tool replaces `arguments`."""
    text = text.rstrip("\n")
    return f"{text}\n\n<!-- cortext:command {name} -->{arguments}<!-- cortext:end -->\n"


def check_names(commands: Iterable[CommandFile]) -> None:
    """Raise UsageError if the name of a command cannot be a file name."""
    for command in commands:
        if not _COMMAND_NAME.fullmatch(command.name):
            raise UsageError(
                f"invalid command name {ascii(command.name)[:60]}",
                hint="begin with a letter or digit; use letters, digits, dots, hyphens and underscores",
            )


# ── commands as skills ─────────────────────────────────────────────────────────────────────────────


def skill_name(command: str) -> str:
    """Return the name of a command as a skill, which cannot contain dots."""
    return re.sub(r"[^a-z0-9-]+", "-", command.lower()).strip("-")


def skill_text(command: CommandFile, *, arguments: str, run: str, call: str, head: Sequence[str] = ()) -> str:
    """Return the text of a SKILL.md.

    `arguments` and `run` replace {arguments} and {run}, `call` is how a user calls a skill (`$`), and `head` are more
    lines of the front matter.
    """
    text = command.text
    if run and "{run}" not in text:
        text = f"{{run}}\n\n{text}"
    text = text.replace("{run}", run).replace("{arguments}", arguments)
    return _with_front_matter(command, _MENTION.sub(f"{call}workspace-", text), head)


def skill_to_read(command: CommandFile, path: str, call: str, *head: str) -> str:
    """Return the text of a SKILL.md that sends the model to the file with the text."""
    text = (
        f"The prompt of this command is the file `../../../{path}`, from the folder of this skill. Read the whole file "
        "now, before you answer, and follow it as if it stood here.\n\n"
        f"`{{arguments}}` in it stands for the text after `{call}{skill_name(command.name)}` in the user's message. A "
        f"command that it calls `/workspace.NAME` is `{call}workspace-NAME` here: call it that to the user."
    )
    return _with_front_matter(command, text, head)


def _with_front_matter(command: CommandFile, text: str, head: Sequence[str]) -> str:
    """Return the text of a SKILL.md with this body."""
    # A JSON string is a YAML string.
    description = json.dumps(" ".join(command.description.split())[:_LONGEST_DESCRIPTION], ensure_ascii=False)
    front = "\n".join([f"name: {skill_name(command.name)}", f"description: {description}", *head])
    return f"---\n{front}\n---\n\n{text.strip()}\n"


def text_without_arguments(command: CommandFile, program: Sequence[str], call: str, *head: str) -> str:
    """Return the text for a tool whose skills take no arguments and run nothing.

    The model gets it after the user's message, so it says where the arguments are and what to run.
    """
    called = f"{call}{skill_name(command.name)}"
    run = ""
    if command.run:
        run = (
            f"If this prompt contains no output of cortext (its hooks are not trusted), run "
            f"`{shell([*program, *command.run])}` first, with the text after `{called}` in the user's message as "
            "further arguments (none if there is none), and read its output."
        )
    arguments = f"(the text after `{called}` in the user's message)"
    return skill_text(command, arguments=arguments, run=run, call=call, head=head)


# ── the skill about cortext ────────────────────────────────────────────────────────────────────────


def agent_skill() -> dict[str, bytes]:
    """Return the skill by its path in the project. All tools that read the folder share the one file."""
    return {f".agents/{_SKILL}": durable.read_file(os.path.join(_FILES, _SKILL))}


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
