"""Agents: markdown files with a name and a prompt, from the project, from the user's settings and from this package.

    ---
    name: reviewer
    description: Reviews a change as a colleague would
    model: anthropic/claude-sonnet-5-5          (optional)
    tools: Read, Grep                           (optional)
    ---
    You are a code reviewer …

If several agents have one name, the project's takes precedence over the user's, and the user's over ours. Claude
Code's `.claude/agents/*.md` have the same format. A project is untrusted: its prompts are used only if the user names
the agent, they are labelled as the project's, and the model that they name is ignored.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from difflib import get_close_matches

import msgspec

from cortext.config import folders
from cortext.errors import NotFound
from cortext.io import durable

DEFAULT = "assistant"
PROJECT, USER, BUILT_IN = "project", "user", "built in"
MAX_BYTES = 1 << 18  # of an agent's file
_FOLDERS = ((".aurora", "agents"), (".claude", "agents"))


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """One agent, as its file describes it."""

    name: str
    prompt: str
    description: str = ""
    model: str = ""  # provider/name; empty if the file names none in this form
    tools: list[str] = []
    source: str = BUILT_IN
    path: str = ""

    @property
    def prompt_hash(self) -> str:
        """A fingerprint of the prompt: a session records it, to notice that the prompt was changed since."""
        return f"sha256:{hashlib.sha256(self.prompt.encode('utf-8', 'surrogatepass')).hexdigest()}"


class Agents(msgspec.Struct, frozen=True):
    """The available agents by name, and the files that could not be used, each with the reason."""

    known: dict[str, Agent]  # of each name, the one that takes precedence
    problems: list[str]
    all: list[Agent]  # in order of precedence

    def get(self, name: str, *, prompt_hash: str = "", is_default: bool = False) -> Agent:
        """Return the agent of this name; NotFound lists the available names.

        Of several agents with the name, the one with this `prompt_hash` is preferred: the session was begun with it.
        `is_default`: the user did not name the agent, so a project's agent must not replace the user's.
        """
        wanted = name.strip().removeprefix("@")
        for candidate in (wanted, wanted.lower(), wanted.lower().replace(" ", "-").replace("_", "-")):
            if candidate in self.known:
                same = [agent for agent in self.all if agent.name == candidate]
                same.sort(key=lambda agent: (agent.prompt_hash != prompt_hash, is_default and agent.source == PROJECT))
                return same[0]

        near = get_close_matches(wanted.lower(), list(self.known), n=2)
        raise NotFound(
            f"unknown agent {name!r}",
            kept="no session was started",
            hint=(f"did you mean {' or '.join(near)}? " if near else "") + f"available: {', '.join(self.known)}",
        )


def find_agents(folder: str) -> Agents:
    """Return every agent that can be used from this folder."""
    agents: list[Agent] = []
    problems: list[str] = []
    for source, agents_folder in _agent_folders(folder):
        for path in _markdown_files(agents_folder):
            try:
                agents.append(read_agent(path, source))
            except (OSError, ValueError) as error:
                problems.append(f"{path}: {getattr(error, 'strerror', None) or error}")
    by_name = {agent.name: agent for agent in reversed(agents)}
    return Agents(dict(sorted(by_name.items())), problems, agents)


def _agent_folders(folder: str) -> Iterator[tuple[str, str]]:
    """Yield the source and the path of each folder that may contain agents, in order of precedence."""
    home = os.path.expanduser("~")
    here = os.path.abspath(folder)
    while here != home:
        for parts in _FOLDERS:
            yield PROJECT, os.path.join(here, *parts)
        parent = os.path.dirname(here)
        if parent == here or os.path.exists(os.path.join(here, ".git")):
            break  # the root of the repository: folders above it may belong to somebody else
        here = parent
    yield USER, os.path.join(os.path.dirname(folders.user_file()), "agents")
    for parts in _FOLDERS:
        yield USER, os.path.join(home, *parts)
    yield BUILT_IN, os.path.join(os.path.dirname(os.path.dirname(__file__)), "builtin")


def _markdown_files(folder: str) -> list[str]:
    try:
        return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".md"))
    except OSError:
        return []


def read_agent(path: str, source: str = USER) -> Agent:
    """Return the agent in a file; ValueError says why the file cannot be used."""
    if source == PROJECT and _has_link(path):
        raise ValueError("a symbolic link: a project's agents must be files in the project")
    with open(path, "rb", opener=durable.plain_file) as file:
        raw = file.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise ValueError(f"larger than {MAX_BYTES >> 10} KiB")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("not UTF-8") from None
    fields, prompt = front_matter(text)
    name = _text(fields.get("name")) or os.path.basename(path).removesuffix(".md")
    if not name.isprintable() or not name.strip() or len(name) > 60 or "/" in name:
        raise ValueError(f"invalid name {ascii(name)[:80]}")
    if not prompt.strip():
        raise ValueError("no prompt below the front matter")
    model = _text(fields.get("model"))
    tools = fields.get("tools", [])
    return Agent(
        name=name.strip(),
        prompt=prompt.strip(),
        description=_text(fields.get("description")),
        # Claude Code's aliases (`sonnet`, `inherit`) do not name a provider.
        model=model if "/" in model and source != PROJECT else "",
        tools=tools if isinstance(tools, list) else [tool.strip() for tool in tools.split(",") if tool.strip()],
        source=source,
        path=path,
    )


def _has_link(path: str) -> bool:
    """Whether `.claude/agents/x.md` has a symbolic link in it, which could lead to any of the user's files."""
    folder, name = os.path.split(os.path.abspath(path))
    top = os.path.dirname(os.path.dirname(folder))
    return os.path.realpath(path) != os.path.join(os.path.realpath(top), os.path.relpath(folder, top), name)


def _text(value: str | list[str] | None) -> str:
    return value if isinstance(value, str) else ", ".join(value or [])


def front_matter(text: str) -> tuple[dict[str, str | list[str]], str]:
    """Return the fields between the first two `---` lines, and the text after them.

    Supports the YAML that such files use: `key: text`, quoted or not, lists in brackets or with a dash on each line,
    and texts that continue on the following lines (`|`, `>`, or indented). Other lines are ignored.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[0].strip() != "---":
        return {}, text
    try:
        end = next(number for number, line in enumerate(lines[1:], 1) if line.strip() == "---")
    except StopIteration:
        return {}, text
    fields: dict[str, str | list[str]] = {}
    key = ""
    for line in lines[1:end]:
        if line[:1].isspace() or line.startswith("- "):
            if key:
                fields[key] = _continued(fields[key], line.strip())
            continue
        key, colon, value = line.partition(":")
        key = key.strip().lower() if colon else ""
        if key and not key.startswith("#"):
            fields[key] = _value(value.strip())
        else:
            key = ""
    return fields, "\n".join(lines[end + 1 :])


def _value(text: str) -> str | list[str]:
    if text.startswith("[") and text.endswith("]"):
        return [_unquoted(item.strip()) for item in text[1:-1].split(",") if item.strip()]
    return "" if text in ("|", ">", "|-", ">-", "|+", ">+") else _unquoted(text)


def _continued(value: str | list[str], line: str) -> str | list[str]:
    if line.startswith("- ") and (isinstance(value, list) or not value):
        return [*value, _unquoted(line[2:].strip())]
    return value if isinstance(value, list) or not line else f"{value} {line}".strip()


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'" else text
