"""Giving a hint with a prompt or before a command, and taking the user's word if it did not help."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from cortext.model.message import Message
from cortext.services.hints.signs import errors_in, failures_in, files_in, phrase_of_command, question_terms

if TYPE_CHECKING:  # imported in the functions: most prompts have nothing to look for
    from cortext.services.hints.hints import Hint, Hinter
    from cortext.services.library.listing import Listing
    from cortext.services.library.search import Search

RECENT = 8  # messages at the end of a chat in which a command may have failed


class World(Protocol):
    """What a hint is looked for in."""

    workspace: str

    def listing(self) -> Listing: ...

    def search(self) -> Search: ...


class Given(NamedTuple):
    """A hint, its text for the model, and the line for the user."""

    hint: Hint
    text: str
    note: str


def hint_for(
    world: World, prompt: str, recent: Sequence[Message], current: str, given: Collection[str]
) -> Given | None:
    """Return a hint for a prompt in the conversation `current`; None if there is none."""
    if not (errors_in(prompt) or question_terms(prompt) or files_in(prompt, world.workspace) or failures_in(recent)):
        return None
    return _given(world, current, given, lambda hinter, known: hinter.hint(prompt, recent, known))


def hint_before(world: World, command: str, current: str, given: Collection[str]) -> Given | None:
    """Return a hint for a shell command that the conversation `current` is about to run; None if there is none."""
    if not phrase_of_command(command):
        return None
    return _given(world, current, given, lambda hinter, known: hinter.before(command, known))


def _given(
    world: World, current: str, given: Collection[str], look: Callable[[Hinter, Collection[str]], Hint | None]
) -> Given | None:
    from cortext.services.hints import muting
    from cortext.services.hints.hints import Hinter, shown, text_of

    muted = muting.load(world.workspace)
    leave_out = [current] if current else []
    hinter = Hinter(world.listing(), world.search(), world.workspace, leave_out=leave_out, weights=muted.weights)
    found = look(hinter, [*given, *muted.hints])
    return Given(found, text_of(found, world.workspace), shown(found)) if found is not None else None


def mute(workspace: str, kind: str, key: str, source: str, arguments: str) -> str:
    """Mute a hint and lower its kind, or with `undo`, take every mute back; return the confirmation."""
    from cortext.services.hints import muting
    from cortext.services.hints.hints import BAR

    if arguments.strip() == "undo":
        muting.unmute(workspace)
        return "Hints of every kind are given as at first again."
    if not kind:
        return "cortext gave no hint in this chat since the last /workspace.mute, so there is nothing to mute."
    weight = muting.mute(workspace, kind, key)
    left = "only if they fit very well" if weight >= BAR else "no longer"
    return (
        f"The last hint came from {source}. It is not given again in this workspace, and others of its kind ({kind}) "
        f"{left}; `/workspace.mute undo` takes back every mute."
    )
