"""`cortext show`: read a conversation."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser

from cortext.errors import CortextError
from cortext.faces.cortext.commands._which import HELP, which
from cortext.faces.terminal import output
from cortext.faces.terminal.args import count_or_none, stores_for
from cortext.faces.terminal.markdown import Markdown
from cortext.faces.terminal.output import coloured, columns, paint
from cortext.faces.terminal.pager import Pager
from cortext.model import clock
from cortext.model.asides import is_beside
from cortext.model.message import THINKING, TOOL_CALL, TOOL_RESULT, Message, instructions_of, marks_of
from cortext.model.order import order_of
from cortext.model.session import details_of, first_turn_of
from cortext.model.wording import amount, clip_summary, cut
from cortext.safety import terminal
from cortext.services.cost.report import session_cost
from cortext.services.library.branches import open_branches
from cortext.services.library.listing import placed, row_of
from cortext.services.library.stores import StoredConversation, problem_of
from cortext.wiring import tools
from cortext.wiring.stores import Stores

WIDEST = 100  # columns of a line of prose: longer ones are hard to read
_COLOURS = {"user": "green", "assistant": "cyan", "tool": "yellow", "system": "magenta"}


def parser() -> ArgumentParser:
    """Return the parser."""
    command = ArgumentParser(
        prog="cortext show",
        description="Print a conversation, word for word.",
        epilog="example:  cortext show 014 --tail 10",
    )
    command.add_argument("session", nargs="+", help=HELP)
    command.add_argument("--tail", type=count_or_none, metavar="N", help="only the last N messages")
    command.add_argument(
        "--tools",
        action="store_true",
        help="include complete tool calls, results and summary, thinking, and what was said to cortext",
    )
    command.add_argument(
        "--no-pager", action="store_true", help="print everything at once, even if it is longer than the screen"
    )
    command.add_argument("--json", action="store_true", help="print the session and its messages as JSON")
    return command


def run(arguments: list[str]) -> int:
    """Print the session."""
    options = parser().parse_args(arguments)
    stores = stores_for()
    conversation = which(stores, " ".join(options.session))
    session, store = conversation.session, conversation.store
    messages = store.read(session.id) if options.tail is None else store.tail(session.id, options.tail)
    problem = problem_of(conversation)
    if options.json:
        from cortext.services.library.export import json_chunks

        if problem is not None:
            output.note(f"Note: {problem.text}.")
        sys.stdout.writelines(json_chunks(conversation, messages, unmasked=True))
        return 0
    with Pager(wanted=not options.no_pager) as pager:
        pager.write(paint(terminal.line(session.title or session.id), "bold"))
        facts = [
            session.id,
            session.type,
            session.shown_status,
            placed([row_of(session, conversation.root, conversation.named_store.kind)])[0].place,
            amount(session.message_count, "message"),
            f"{session.branch_count} branches" if session.branch_count > 1 else "",
            f"last active {clock.ago(session.last_active)}",
        ]
        checked = first_turn_of(session.extra)
        order = order_of(session.extra)
        facts += [
            _cost(conversation, stores) if options.tail is None else "",
            "★" if order.starred else "",
            "archived" if order.archived else "",
        ]
        facts += [f"#{tag}" for tag in order.tags]
        pager.write(_folded(" · ".join(fact for fact in facts if fact), "dim"))
        if checked is not None:
            text = checked.sentence(tools.title(checked.tool))
            pager.write(_folded(f"resumed: {text} ({clock.short(checked.at)})", "red" if checked.is_short else "dim"))
        for number, note in enumerate(order.notes, 1):
            pager.write(_folded(f"note {number}: {note.text} ({clock.short(note.at)})", "yellow"))
        if session.summary:
            pager.write(_prose(session.summary if options.tools else _short(session.summary)))
        for label, text in details_of(session.extra).labelled():
            pager.write(_folded(f"{label}: {text}", "dim"))
        found, marks = open_branches(store, session)
        for number, branch in enumerate(found, 1):
            pager.write(_folded(f"branch {number}: {branch.words}", "yellow"))
        for message in messages:
            if message.seq in marks:
                pager.write(f"\n{_folded(f'── {marks[message.seq]} ──', 'yellow')}")
            if is_beside(message) and session.message_count and not options.tools:
                continue
            body = _body(message, complete=options.tools)
            if body.strip():  # skip messages of blanks, or of thinking without --tools
                pager.write(f"\n{_heading(message)}\n{body}")
        if problem is not None:
            pager.write(f"\n{paint('damaged', 'red')}: {terminal.line(problem.text)}")
    return 0


def _cost(conversation: StoredConversation, stores: Stores) -> str:
    """Return what the conversation cost, from its own messages; empty if it has no recorded tokens."""
    try:
        prices = stores.prices()
    except CortextError as error:  # a conversation can be read without prices
        return f"cost unknown: {error.message}"
    messages = conversation.store.read(conversation.session.id)
    cost = session_cost(stores.listing(), conversation.root, conversation.session, messages, prices)
    return cost.text if cost is not None else ""


def _prose(text: str) -> str:
    """Return markdown styled and folded between words for a screen; unchanged if there is none."""
    parts: list[str] = []
    printer = Markdown(parts.append, colour=coloured(), columns=min(columns(), WIDEST))
    printer.feed(text)
    printer.end()
    return "".join(parts).removesuffix("\n")


def _folded(text: str, *styles: str) -> str:
    """Return plain text, folded between words on a screen."""
    parts: list[str] = []
    printer = Markdown(parts.append, colour=False, columns=min(columns(), WIDEST))
    printer.feed(terminal.line(text))
    printer.end()
    return paint("".join(parts).removesuffix("\n"), *styles)


def _heading(message: Message) -> str:
    told = instructions_of(message)
    labels = [*marks_of(message), *([told] if told else [])]
    heading = " ".join([message.role, *(f"({label})" for label in labels)])
    when = paint(f"#{message.seq}  {terminal.line(clock.short(message.timestamp))}", "dim")
    return f"{paint(terminal.line(heading), _COLOURS.get(message.role, 'blue'), 'bold')}  {when}"


def _body(message: Message, *, complete: bool) -> str:
    lines = [_prose(message.content)] if message.content else []
    if instructions_of(message) and not complete:
        lines = [paint(terminal.block(_first_lines(message.content, 2)), "dim")]
    for part in message.parts or ():
        if part.type == TOOL_CALL:
            given = cut(json.dumps(part.input, ensure_ascii=False), 160)
            lines.append(paint(terminal.line(f"→ {part.name} {given}"), "yellow"))
        elif part.type == TOOL_RESULT:
            output = part.output if complete else _first_lines(part.output)
            lines.append(paint(terminal.block(f"← {output}"), "red" if part.is_error else "dim"))
        elif part.type == THINKING and complete:
            lines.append(paint(terminal.block(f"(thinking) {part.text}"), "dim"))
        elif part.ref:
            lines.append(paint(terminal.line(f"[{part.type} {part.ref}]"), "magenta"))
    return "\n".join(lines)


def _short(summary: str) -> str:
    text = clip_summary(summary, len(summary), lines=12)
    return text if text == summary else f"{text}\n  (shortened; --tools shows all of it)"


def _first_lines(text: str, count: int = 4) -> str:
    lines = text.splitlines()
    if len(lines) <= count:
        return text
    return "\n".join(lines[:count]) + f"\n  … {len(lines) - count} more lines (--tools shows them)"
