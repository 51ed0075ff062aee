"""`aur agents`: the available agents."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser

import msgspec

from cortext.agents.talk.agents import Agents, find_agents
from cortext.faces.terminal.args import Help
from cortext.faces.terminal.reading import stores_for
from cortext.faces.terminal.table import table
from cortext.safety import terminal


def parser() -> ArgumentParser:
    """Return the parser of the command line."""
    command_line = ArgumentParser(
        prog="aur agents",
        formatter_class=Help,
        description="List the agents: the project's (.aurora/agents, .claude/agents), your own (in the folder of your "
        "settings, ~/.aurora/agents and ~/.claude/agents), and those that come with aur. If several have one name, the "
        "first in this order is used.",
    )
    command_line.add_argument("name", nargs="?", help="show this agent's prompt")
    command_line.add_argument("--json", action="store_true", help="print JSON")
    return command_line


def run(arguments: list[str]) -> int:
    """List the agents, or show one."""
    options = parser().parse_args(arguments)
    found = find_agents(stores_for().folder)
    chosen = [found.get(options.name)] if options.name else list(found.known.values())
    if options.json:
        print(json.dumps(msgspec.to_builtins(chosen[0] if options.name else chosen), ensure_ascii=False, indent=2))
    elif options.name:
        print(terminal.block(chosen[0].prompt))
        print(terminal.line(f"\n{chosen[0].source}: {chosen[0].path}"), file=sys.stderr)
    else:
        print(agent_table(found))
    for problem in found.problems:
        print(terminal.line(f"Note: skipped an invalid agent: {problem}"), file=sys.stderr)
    return 0


def agent_table(found: Agents) -> str:
    """Return the table of agents: name, source, model and description."""
    rows = [(agent.name, agent.source, agent.model or "-", agent.description) for agent in found.known.values()]
    return table(("AGENT", "SOURCE", "MODEL", "DESCRIPTION"), rows, styles=("cyan", "dim", "", ""))
