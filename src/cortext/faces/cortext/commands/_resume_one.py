"""`cortext resume` for one conversation: choose it, print its packet, plan, and start the tool."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn, TextIO

import msgspec

from cortext.errors import NotFound, TransitionRefused, UsageError
from cortext.faces.cortext.commands._which import choose
from cortext.faces.terminal.output import folded, paint, print_fields, print_json
from cortext.faces.terminal.run import ENDED, refresh_command
from cortext.model.session import COMPLETED
from cortext.model.wording import clip
from cortext.safety import terminal
from cortext.safety.languages import typed
from cortext.services.capture import first_turns
from cortext.services.cost.carrying import CarryingPrices
from cortext.services.library.branches import open_branches
from cortext.services.library.listing import Listing, Row
from cortext.services.library.stores import StoredConversation
from cortext.services.resume import environment
from cortext.services.resume.handover import carry_out_or_rewrite, example_launch, take_back, unseen_end
from cortext.services.resume.notes import choose_branch, notes_on, up_to_date
from cortext.services.resume.packet import packet_for
from cortext.services.resume.planning import OWN, PUT_BACK, Plan, plan_for
from cortext.services.workspace.installed_tools import untested
from cortext.wiring import tools
from cortext.wiring.stores import Stores

_LONGEST_SHOWN = 300  # characters of a message before a tool that does not show the conversation


def resume_one(stores: Stores, listing: Listing, rows: list[Row], options: Namespace) -> int:
    """Print, plan or resume the conversation that the options name; return the exit code."""
    wanted = " ".join(options.what)
    if options.in_tool:
        words = f"{wanted} --branch {options.branch}" if options.branch else wanted
        return _answer_in_tool(stores, listing, words, force=options.force)
    row, picked = choose(
        stores,
        listing,
        rows,
        wanted if options.what else None,
        targets=lambda: tuple(writer.name for writer in tools.native_writers()),
        is_silent=options.json,
    )
    if row is None:
        return 130
    options.ai = picked or options.ai
    chosen, missing = up_to_date(listing.found(row), stores.caught_up)
    choose_branch(chosen, options.branch or 0)
    if not (options.branch or options.print_packet or options.dry_run):
        _ask_for_branch(chosen)
    if options.print_packet:
        budget = options.tokens or stores.settings.resume.tokens
        return _print(chosen, budget, stores.carrying(listing), missing, as_json=options.json)
    if not options.dry_run:
        from cortext.services.workspace.creating import session_to_continue

        branch = chosen.session.branch
        chosen = session_to_continue(chosen, stores.home_store())
        chosen.session.branch = branch
    tool = tools.writer_for(chosen.session, options.ai, stores.settings.resume.tool, _ask_for_tool)
    budget = options.tokens or stores.settings.resume.native_tokens
    plan = plan_for(chosen, tool, budget=budget, rewrite=options.rewrite, missing=missing)
    carrying = stores.carrying(listing)
    plan.receipt.price = carrying.sentence(plan.session, plan.receipt.tokens, tool.name, options.model)
    if options.dry_run:
        return _print_plan(plan, example_launch(plan, tool, options.model).argv, as_json=options.json)
    found = tool.detect()
    if found is None and not options.no_start:
        others = ", ".join(writer.name for writer in tools.native_writers())
        raise NotFound(
            f"{tool.title} is not installed here",
            kept="the conversation is unchanged",
            hint=f"install it, or choose another with --ai ({others}), or print the packet with --print",
        )
    if found is None:
        plan.warnings.append(f"{tool.title} is not installed here")
    elif note := untested(tool, found):
        plan.warnings.append(note)
    force = options.force or _confirm_reopening(chosen)
    capture = stores.capture()
    first = plan
    plan, launch = carry_out_or_rewrite(
        plan, chosen, tool, capture, budget=budget, missing=missing, model=options.model, force=force
    )
    if plan is not first:
        plan.receipt.price = carrying.sentence(plan.session, plan.receipt.tokens, tool.name, options.model)
    try:
        _print_receipt(plan, sys.stdout if options.no_start else sys.stderr)
        _print_changed(tool.title, [os.path.relpath(path, launch.cwd) for path in launch.changed])
        if options.no_start:
            line = typed([*(f"{name}={value}" for name, value in launch.env.items()), *launch.argv])
            print(f"  start it   {terminal.line(line)}")
            return 0
        _print_end(unseen_end(plan, tool), sys.stderr)
        _start(launch.argv, launch.cwd, launch.env, [_failure(plan, tool.title), *_at_the_end(tool.name, plan.key)])
    except OSError as error:
        environment.take_back()
        take_back(plan, tool, capture)
        raise NotFound(
            f"{tool.title} could not be started: {error.strerror or error}",
            kept="the conversation is unchanged, and nothing is left in the tool",
            hint="choose another with --ai, or print the packet with --print",
        ) from error


def _answer_in_tool(stores: Stores, listing: Listing, wanted: str, *, force: bool) -> int:
    """Print what a slash command puts into the tool's prompt: the list, or the conversation that continues there."""
    from cortext.services.capture.capture import catch_up
    from cortext.services.resume.in_tool import FORCE, ChatResumer, reply_in_chat
    from cortext.services.workspace import running_chats
    from cortext.services.workspace.lifecycle import pause

    chat = running_chats.asking_chat(os.environ, stores.workspace, tools.with_hooks())
    capture = stores.capture()

    def capture_chat() -> None:
        if chat is not None:  # what was said so far belongs to the conversation before
            catch_up(capture, tools.tool(chat.tool), chat.key)

    commit = stores.settings.workspace.commit
    resumer = ChatResumer(
        listing,
        capture,
        stores.workspace,
        chat,
        caught_up=stores.caught_up,
        save=lambda held: pause(held, commit=commit),
        price=stores.carrying(listing).sentence,
    )
    reply = reply_in_chat(resumer, f"{wanted} {FORCE}" if force else wanted, capture_chat)
    print(terminal.block(reply.text()))
    return 0


def _confirm_reopening(conversation: StoredConversation) -> bool:
    """Ask at a terminal whether a completed conversation is to be resumed anyway."""
    if conversation.session.status != COMPLETED or not sys.stdin.isatty():
        return False
    name = terminal.line(conversation.session.title or conversation.session.id)
    answer = input(f'"{name}" was marked as completed. Resume it anyway? [y/N] ')
    if answer.strip().lower() in ("y", "yes"):
        return True
    raise TransitionRefused(
        "the session was completed", kept="it is unchanged", hint="use --force to reopen it without asking"
    )


def _ask_for_branch(conversation: StoredConversation) -> None:
    """Ask at a terminal which branch is to be continued; without one, they are joined."""
    session = conversation.session
    if session.branch_count < 2 or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    print(f"It went on in {session.branch_count} places at once:", file=sys.stderr)
    for number, branch in enumerate(open_branches(conversation.store, session)[0], 1):
        print(terminal.line(f"  {number}. {branch.words}"), file=sys.stderr)
    while answer := input("Continue which branch? (Enter: all, joined) ").strip():
        if answer.isdigit() and 0 < int(answer) <= session.branch_count:
            session.branch = int(answer)
            return
        print(terminal.line(f"there is no branch {answer!r}"), file=sys.stderr)


def _at_the_end(tool: str, key: str) -> list[str]:
    """Return the file that must not have become smaller when the tool ends, its size, and what to run if it has."""
    record = first_turns.record_of(tool, key)
    return [record.path, str(record.size), *refresh_command(ENDED, tool, key)] if record is not None else []


def _start(argv: list[str], folder: str, added: dict[str, str], words: Sequence[str]) -> NoReturn:
    """Start the tool, which takes over the terminal, and become the small program that waits for it.

    Raise OSError if it cannot be started. `words` are what that program does at the end: see its `main`.
    """
    from cortext.faces.cortext import supervise

    sys.stdout.flush()
    sys.stderr.flush()
    os.chdir(folder)
    environ = environment.environment(added)
    program = shutil.which(argv[0], path=environ.get("PATH")) or argv[0]
    # Until the small program handles them: one that comes in between would leave the tool behind.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (*supervise.PASSED_ON, signal.SIGINT, signal.SIGQUIT))
    try:
        defaults = (signal.SIGPIPE, signal.SIGXFSZ)  # Python ignores them
        process = os.posix_spawn(program, argv, environ, setsigmask=before, setsigdef=defaults)
    except OSError:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        raise
    words = [str(process), str(time.monotonic()), *words]
    with suppress(OSError):
        os.execv(sys.executable, [sys.executable, "-I", "-S", supervise.__file__, *words])
    sys.exit(supervise.main(words))


def _failure(plan: Plan, title: str) -> str:
    """Return what to say if the tool ends at once; {status} is its exit status."""
    again = "use --rewrite to write a new session, or" if plan.how in (OWN, PUT_BACK) else "use"
    return (
        f"{title} ended at once with exit status {{status}}; the conversation {plan.session.id} is kept as it was: "
        f"{again} --ai to continue in another tool"
    )


def _ask_for_tool(here: list[str]) -> str:
    """Return which of the tools here the user chooses; raise UsageError if nobody can be asked or there is none."""
    while here and sys.stdin.isatty():
        answer = input(f"Continue in which tool? ({', '.join(here)}) ").strip().lower()
        if answer in here:
            return answer
        if not answer:
            break
        print(terminal.line(f"unknown tool {answer!r}; press Enter alone to leave."), file=sys.stderr)
    raise UsageError(
        "no AI tool was chosen to continue this conversation" if here else "no AI tool is installed here",
        kept="the conversation is unchanged",
        hint=f"use --ai {' or --ai '.join(here)}" if here else "print the packet with --print and paste it anywhere",
    )


def _print(
    conversation: StoredConversation, budget: int, carrying: CarryingPrices, missing: list[str], *, as_json: bool
) -> int:
    notes = [*missing, *notes_on(conversation)]
    for note in notes:
        print(terminal.line(f"Note: {note}."), file=sys.stderr)
    packet = packet_for(conversation, os.getcwd(), budget)
    packet.receipt.price = carrying.sentence(conversation.session, packet.receipt.tokens)
    if as_json:
        print_json({"packet": packet.text(), "receipt": msgspec.to_builtins(packet.receipt), "warnings": notes})
    else:
        print(terminal.block(packet.text()), end="")
        if packet.receipt.price:
            sys.stdout.flush()
            print(terminal.line(f"Note: {packet.receipt.price}."), file=sys.stderr)
    return 0


def _lines(plan: Plan) -> list[str]:
    return [*plan.receipt.lines(), *(f"note       {text}" for text in plan.warnings)]


def _print_receipt(plan: Plan, stream: TextIO) -> None:
    name = paint(terminal.line(plan.session.title or plan.session.id), "bold", stream=stream)
    print(f"Resuming {name} in {plan.receipt.target}: {plan.how}", file=stream)
    print_fields(_lines(plan), stream)


def _print_end(exchanges: Sequence[tuple[bool, str]], stream: TextIO) -> None:
    """Show how a conversation ends, before a tool that does not show it."""
    for is_users, text in exchanges:
        line = terminal.line(f"{'you' if is_users else 'answer':<11}{clip(text, _LONGEST_SHOWN)}")
        print(folded(f"  {line}", stream, indent=11), file=stream)


def _print_changed(title: str, names: Sequence[str]) -> None:
    """Tell the user what is new in the project itself, which they may have under version control."""
    if names:
        text = f"  changed    {' and '.join(names)}, as {title} needs it to load and keep the conversation"
        print(terminal.line(text), file=sys.stderr)


def _print_plan(plan: Plan, argv: list[str], *, as_json: bool) -> int:
    if as_json:
        fields = {"how": plan.how, "argv": argv, "cwd": plan.project, "warnings": plan.warnings}
        print_json({"receipt": msgspec.to_builtins(plan.receipt), **fields})
        return 0

    print(f"{plan.how}, in {terminal.line(plan.project)}")
    print_fields(_lines(plan))
    print(f"  would run  {terminal.line(typed(argv))}")
    return 0
