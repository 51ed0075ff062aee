"""Agents: markdown files with a name and a prompt, in the project, in the user's config, and built in.

    ---
    name: reviewer
    description: Reviews a change as a colleague would
    model: anthropic/claude-sonnet-5-5          (optional)
    tools: Read, Grep                           (optional)
    ---
    You are a code reviewer …

The nearest wins: the project's own, the user's, ours. Claude Code's `.claude/agents/*.md` are such files too. A
project comes from strangers: its prompts are used where the user names them, and shown as the project's; the model
that they name is not.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from difflib import get_close_matches

import msgspec

from cortext.config import folders
from cortext.errors import NotFound
from cortext.io import files as fsio

DEFAULT = "assistant"
PROJECT, USER, BUILT_IN = "project", "user", "built in"
LONGEST = 1 << 18  # bytes; a prompt that is longer is none
_FOLDERS = ((".aurora", "agents"), (".claude", "agents"))


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """One agent as its file says."""

    name: str
    prompt: str
    description: str = ""
    model: str = ""  # provider/name; empty where the file names none that we know how to ask
    tools: list[str] = []
    source: str = BUILT_IN
    path: str = ""

    @property
    def prompt_hash(self) -> str:
        """What tells whether the prompt is still the one that a session was held with."""
        return f"sha256:{hashlib.sha256(self.prompt.encode('utf-8', 'surrogatepass')).hexdigest()}"


class Agents(msgspec.Struct, frozen=True):
    """The agents at hand, the nearest of each name by that name; and the files that are none, with the reason."""

    known: dict[str, Agent]
    problems: list[str]
    every: list[Agent]  # the nearest first

    def get(self, name: str, *, held_with: str = "", unasked: bool = False) -> Agent:
        """The agent of this name; NotFound with the names that there are.

        `held_with` is the hash of a prompt: of several agents of a name, the one that a session was held with.
        `unasked`: the user did not name it, so a project must not put its own in the place of his.
        """
        wanted = name.strip().removeprefix("@")
        for candidate in (wanted, wanted.lower(), wanted.lower().replace(" ", "-").replace("_", "-")):
            if candidate in self.known:
                same = [agent for agent in self.every if agent.name == candidate]
                same.sort(key=lambda agent: (agent.prompt_hash != held_with, unasked and agent.source == PROJECT))
                return same[0]

        near = get_close_matches(wanted.lower(), list(self.known), n=2)
        raise NotFound(
            f"no agent {name!r}",
            kept="nothing was begun",
            hint=(f"did you mean {' or '.join(near)}? " if near else "") + f"there are: {', '.join(self.known)}",
        )


def find_agents(folder: str) -> Agents:
    """Every agent that can be used from this folder, by name."""
    every: list[Agent] = []
    problems: list[str] = []
    for source, place in _places(folder):
        for path in _markdown_files(place):
            try:
                every.append(read_agent(path, source))
            except (OSError, ValueError) as error:
                problems.append(f"{path}: {getattr(error, 'strerror', None) or error}")
    nearest = {agent.name: agent for agent in reversed(every)}
    return Agents(dict(sorted(nearest.items())), problems, every)


def _places(folder: str) -> Iterator[tuple[str, str]]:
    """The folders with agents, the nearest first."""
    home = os.path.expanduser("~")
    here = os.path.abspath(folder)
    while here != home:
        for parts in _FOLDERS:
            yield PROJECT, os.path.join(here, *parts)
        parent = os.path.dirname(here)
        if parent == here or os.path.exists(os.path.join(here, ".git")):
            break  # the repository ends here: what lies above belongs to somebody else
        here = parent
    yield USER, os.path.join(os.path.dirname(folders.user_file()), "agents")
    for parts in _FOLDERS:
        yield USER, os.path.join(home, *parts)
    yield BUILT_IN, os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(__file__))), "agents")


def _markdown_files(folder: str) -> list[str]:
    try:
        return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".md"))
    except OSError:
        return []


def read_agent(path: str, source: str = USER) -> Agent:
    """The agent in a file; ValueError says why it is none."""
    if source == PROJECT and _leads_out(path):
        raise ValueError("a link: a project's agents must lie in the project")
    with open(path, "rb", opener=fsio.plain_file) as file:
        raw = file.read(LONGEST + 1)
    if len(raw) > LONGEST:
        raise ValueError(f"longer than {LONGEST >> 10} KiB")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("not UTF-8") from None
    fields, prompt = front_matter(text)
    name = _text(fields.get("name")) or os.path.basename(path).removesuffix(".md")
    if not name.isprintable() or not name.strip() or len(name) > 60 or "/" in name:
        raise ValueError(f"not a name: {ascii(name)[:80]}")
    if not prompt.strip():
        raise ValueError("no prompt below the front matter")
    model = _text(fields.get("model"))
    tools = fields.get("tools", [])
    return Agent(
        name=name.strip(),
        prompt=prompt.strip(),
        description=_text(fields.get("description")),
        # `sonnet`, `inherit`: Claude Code's own words, which say nothing about whom to ask.
        model=model if "/" in model and source != PROJECT else "",
        tools=tools if isinstance(tools, list) else [word.strip() for word in tools.split(",") if word.strip()],
        source=source,
        path=path,
    )


def _leads_out(path: str) -> bool:
    """Whether there is a link in `.claude/agents/x.md`: a repository could point it at any file of the user's."""
    folder, name = os.path.split(os.path.abspath(path))
    top = os.path.dirname(os.path.dirname(folder))
    return os.path.realpath(path) != os.path.join(os.path.realpath(top), os.path.relpath(folder, top), name)


def _text(value: str | list[str] | None) -> str:
    return value if isinstance(value, str) else ", ".join(value or [])


def front_matter(text: str) -> tuple[dict[str, str | list[str]], str]:
    """The fields between the first two `---` lines, and the rest.

    As much of YAML as such files use: `key: text`, quoted or not, lists in brackets or a dash a line, and long
    texts on the lines that follow (`|`, `>`, or simply indented). What is not understood is passed over.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[0].strip() != "---":
        return {}, text
    try:
        end = next(place for place, line in enumerate(lines[1:], 1) if line.strip() == "---")
    except StopIteration:
        return {}, text
    fields: dict[str, str | list[str]] = {}
    key = ""
    for line in lines[1:end]:
        if line[:1].isspace() or line.startswith("- "):
            if key:
                fields[key] = _with_more(fields[key], line.strip())
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


def _with_more(value: str | list[str], line: str) -> str | list[str]:
    if line.startswith("- ") and (isinstance(value, list) or not value):
        return [*value, _unquoted(line[2:].strip())]
    return value if isinstance(value, list) or not line else f"{value} {line}".strip()


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'" else text
