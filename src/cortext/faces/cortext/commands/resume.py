"""`cortext resume`: continue a conversation, in the AI tool that it was held in or in any other."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from typing import NoReturn

from cortext.errors import NotFound, UsageError
from cortext.faces.cortext.commands.list_ import listing
from cortext.faces.terminal.style import paint
from cortext.model import clock
from cortext.model.message import thread
from cortext.safety import terminal
from cortext.services.choose import candidates, choose
from cortext.services.export import masked
from cortext.services.registry import command_text
from cortext.services.resume.handover import Plan, carry_out, make_plan
from cortext.services.resume.in_tool import answer_in_tool
from cortext.services.resume.packet import build
from cortext.services.stores import Found, all_sessions
from cortext.services.views import session_row
from cortext.wiring import TOOLS, Wiring


def parser() -> ArgumentParser:
    """The command line."""
    made = ArgumentParser(
        prog="cortext resume",
        description="Continue a conversation where it stopped: the AI tool opens with the whole of it as real turns. "
        "Without a name: the conversations that can be resumed, numbered, the last active first.",
        epilog="examples:  cortext resume 2  ·  cortext resume 001-brainstorm-api  ·  cortext resume api --ai gemini",
    )
    made.add_argument("what", nargs="*", help="a number from the list, an id, the beginning of one, or words")
    made.add_argument("--ai", choices=tuple(TOOLS), help="the AI tool to continue in (default: the one it was held in)")
    made.add_argument("--list", action="store_true", help="a table: id, type, title, status, last active")
    made.add_argument("--type", help="only conversations of this type")
    made.add_argument("--status", help="only conversations with this status")
    made.add_argument("--print", action="store_true", dest="print_packet", help="print what an agent would receive")
    made.add_argument(
        "-n", "--dry-run", action="store_true", help="the receipt and the command line; nothing is written"
    )
    made.add_argument("--force", action="store_true", help="resume a completed conversation all the same")
    made.add_argument("--in-tool", action="store_true", help="called from an AI tool's command: short, never fails")
    made.add_argument("--model", default="", help="the model that the tool is to use")
    made.add_argument("--tokens", type=int, metavar="N", help="how much history to carry at most")
    made.add_argument("--json", action="store_true", help="JSON: the list, the packet, or the receipt (with --dry-run)")
    return made


def run(arguments: list[str]) -> int:
    """List, print, plan or resume."""
    options = parser().parse_args(arguments)
    wiring = Wiring()
    found = [
        item
        for item in all_sessions(wiring.stores())
        if (not options.type or item.session.type == options.type)
        and (not options.status or item.session.shown_status == options.status)
    ]
    on_screen = sys.stdin.isatty() and sys.stdout.isatty() and not options.json
    if options.list or (not options.what and not options.in_tool and not (on_screen and found)):
        return _list(found, as_json=options.json, as_table=options.list)
    if options.in_tool:
        print(answer_in_tool(wiring.stores(), wiring.workspace, " ".join(options.what)))
        return 0
    chosen = _choose(found, " ".join(options.what))
    if chosen is None:
        return 130
    command, current_hash = command_text(chosen.place.root, chosen.session.type)
    if options.print_packet:
        return _print(chosen, command, options.tokens or wiring.settings["resume.tokens"], as_json=options.json)
    tool = wiring.tool(options.ai or chosen.session.origin.tool or wiring.settings["resume.tool"] or _only_tool(wiring))
    plan = make_plan(
        chosen,
        tool,
        command=command,
        budget=options.tokens or wiring.settings["resume.native_tokens"],
        warnings=_warnings(chosen, current_hash),
    )
    if options.dry_run:
        launch = tool.launch(plan.key or "NEW", project=plan.project, prompt="…", model=options.model)
        return _dry(plan, launch.argv, as_json=options.json)
    if tool.detect() is None:
        raise NotFound(
            f"{tool.title} is not installed here",
            kept="the conversation is unchanged",
            hint=f"install it, or choose another with --ai ({', '.join(TOOLS)}), or print the packet with --print",
        )
    launch = carry_out(plan, chosen, tool, wiring.capture(), model=options.model, force=options.force)
    _receipt(plan, sys.stderr.isatty())
    return _become(launch.argv, launch.cwd, launch.env)


def _choose(found: list[Found], wanted: str) -> Found | None:
    """The one that is meant; where there are several, a person at a screen picks. None: he left."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return choose(found, wanted)
    matches = candidates(found, wanted) if wanted else found
    if len(matches) == 1:
        return matches[0]
    if not matches:
        return choose(found, wanted)  # says so, and shows the nearest
    from cortext.faces.terminal.picker import pick

    def preview(place: int) -> str:
        item = matches[place]
        head = f"{item.session.title}\n{item.session.id} · {item.session.shown_status}\n\n{item.session.summary}\n"
        said = [f"{message.role}: {message.text[:600]}" for message in item.place.store.tail(item.session.id, 4)]
        return "\n\n".join([head, *said])

    rows = [
        (item.session.title or item.session.id, f"{item.session.type} · {clock.ago(item.session.last_active)}")
        for item in matches
    ]
    places = {id(item): place for place, item in enumerate(matches)}
    place = pick(rows, preview, lambda text: [places[id(item)] for item in candidates(matches, text)], "Resume which?")
    return None if place is None else matches[place]


def _become(argv: list[str], folder: str, added: dict[str, str]) -> NoReturn:
    """Give the terminal to the tool: this process becomes it."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.chdir(folder)
    os.execvpe(argv[0], argv, {**os.environ, **added})


def _only_tool(wiring: Wiring) -> str:
    """The tool to use where neither the conversation nor a setting names one: the only one that is here."""
    here = [tool.name for tool in wiring.tools() if tool.detect() is not None]
    if len(here) == 1:
        return here[0]
    raise UsageError(
        "which AI tool shall continue this conversation?" if here else "none of the AI tools is installed here",
        kept="the conversation is unchanged",
        hint=f"say --ai {' or --ai '.join(here)}" if here else "print the packet with --print and paste it anywhere",
    )


def _warnings(chosen: Found, current_hash: str) -> list[str]:
    """What the user should know before going on."""
    before = chosen.session.agent_config.system_prompt_hash
    if before and current_hash and before != current_hash:
        return [f"the text of {chosen.session.agent_config.command} changed since; the current one is used"]
    return []


def _print(chosen: Found, command: str, budget: int, *, as_json: bool) -> int:
    messages, secrets = masked(thread(chosen.place.store.read(chosen.session.id)))
    packet = build(chosen.session, messages, command=command, budget=budget)
    for kind in secrets:
        packet.receipt.changed[f"secret masked ({kind})"] = secrets.count(kind)
    if as_json:
        import msgspec

        answer = {"packet": packet.text(), "receipt": packet.receipt}
        print(msgspec.json.format(msgspec.json.encode(answer), indent=2).decode())
    else:
        print(terminal.block(packet.text()), end="")
    return 0


def _receipt(plan: Plan, coloured: bool) -> None:
    out = sys.stderr
    title = terminal.line(plan.session.title or plan.session.id)
    print(
        f"Resuming {paint(title, 'bold', stream=out) if coloured else title} in {plan.receipt.target}: {plan.how}",
        file=out,
    )
    for line in (*plan.receipt.lines(), *(f"note       {text}" for text in plan.warnings)):
        print(f"  {terminal.line(line)}", file=out)


def _dry(plan: Plan, argv: list[str], *, as_json: bool) -> int:
    if as_json:
        import msgspec

        answer = {
            "receipt": plan.receipt,
            "how": plan.how,
            "argv": argv,
            "cwd": plan.project,
            "warnings": plan.warnings,
        }
        print(msgspec.json.format(msgspec.json.encode(answer), indent=2).decode())
        return 0
    import shlex

    print(f"{plan.how}, in {terminal.line(plan.project)}")
    for line in (*plan.receipt.lines(), *(f"note       {text}" for text in plan.warnings)):
        print(f"  {terminal.line(line)}")
    print(f"  would run  {terminal.line(shlex.join(argv))}")
    return 0


def _list(found: list[Found], *, as_json: bool, as_table: bool) -> int:
    if as_json:
        import json

        print(json.dumps([session_row(item) for item in found], ensure_ascii=False, indent=2))
    elif not found:
        print("No conversation can be resumed yet. Start one in your AI tool, or see `cortext demo`.")
    elif as_table:
        print(listing(found))
    else:
        print("Conversations that you can resume:\n")
        for number, item in enumerate(found, 1):
            session = item.session
            title = paint(terminal.line(session.title or session.id), "bold")
            print(f"{number}. [{terminal.line(session.type or item.place.kind)}] {title}")
            print(f"   Last active: {clock.ago(session.last_active)} | Status: {terminal.line(session.shown_status)}")
            if session.summary:
                print(f"   Summary: {terminal.line(session.summary)}")
            print()
        print("Continue one with `cortext resume NUMBER`, or by its id, or by words from its title.")
    return 0
