"""Our entries in a project's `.codex` folder: hooks in hooks.json, the MCP server in config.toml.

Codex reads both files only in a project that the user trusts, and runs a hook only once the user has looked
at it: at its next start it asks ("Hooks need review"), and notes the hash of each hook that was approved, by
file, event and place in the list, in the user's own config.toml. So ours go to the end of the lists, and an
unchanged entry is never touched: either would cost the user another review.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence

from cortext.errors import ConfigError, UnsafePath
from cortext.io.inside import inside
from cortext.tools.shared.entries import NAME, Hooks
from cortext.tools.shared.installer import Config, JsonConfig, TomlConfig, parse_toml, read_config, toml_string

_HOOKS = ".codex/hooks.json"
# What we ask for with each event. Without a limit of its own, an answer of more than 10,000 characters
# would reach the model cut in the middle.
_WAIT = {"timeout": 10}
_LISTEN = {**_WAIT, "additionalContextLimit": 200_000}
_EVENTS = {
    "SessionStart": _LISTEN,
    "UserPromptSubmit": _LISTEN,
    "PostCompact": _WAIT,
    "Stop": _WAIT,
    "SessionEnd": {"timeout": 3},  # Codex allows no more here, and says so at every start
}


def configs(program: Sequence[str] = ("cortext",)) -> list[Config]:
    """Hooks in `.codex/hooks.json` (plain JSON), the MCP server in `.codex/config.toml`."""
    call = {"type": "command", "command": shlex.join([*program, "hook", "codex"])}
    command, *arguments = map(toml_string, [*program, "mcp"])
    server = TomlConfig(
        ".codex/config.toml",
        "mcp_servers",
        f"[mcp_servers.{NAME}]\ncommand = {command}\nargs = [{', '.join(arguments)}]\n"
        'env = { CORTEXT_TOOL = "codex" }',
        begin="# >>> cortext: its MCP server; taken out again by cortext >>>",
        end="# <<< cortext <<<",
    )
    hooks = Hooks({event: {**call, **asked} for event, asked in _EVENTS.items()})
    return [JsonConfig((_HOOKS,), [hooks]), server]


def untrusted(settings: str, project: str) -> str:
    """What the user has to do before Codex runs our hooks; empty where its settings say that it was done."""
    hooks = os.path.realpath(inside(project, _HOOKS))
    try:
        text = read_config(os.path.realpath(settings))
        state = parse_toml(settings, text or "").get("hooks", {}).get("state", {})
        keys = [os.path.realpath(key.partition("hooks.json:")[0] + "hooks.json") for key in state]
    except (AttributeError, TypeError, ConfigError, UnsafePath):
        return ""  # its settings are not as we know them: nothing can be said
    if keys.count(hooks) >= len(_EVENTS):
        return ""
    return 'start codex in the project once, and answer "Hooks need review" with "Trust all and continue"'
