"""What is wrong with the stored log of a session and what to do about it, in the words of every face."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cortext.errors import CortextError, not_fetched
from cortext.model.wording import amount
from cortext.services.library.stores import Found
from cortext.store.base import POINTER, TORN, UNREADABLE, Damage


class Problem(NamedTuple):
    """What is wrong with a session: `todo` is a command, `hint` a sentence that names it."""

    what: str
    todo: str
    hint: str
    damage: Sequence[Damage] = ()

    @property
    def text(self) -> str:
        """What is wrong and what to do, as a clause."""
        return f"{self.what}: {self.hint}"


def problem_of(found: Found) -> Problem | None:
    """Return what is wrong with a session; None if it is whole. Only one that counts as damaged is read."""
    session = found.session
    if not session.damage:
        return None
    todo = f"cortext repair {session.id}"
    hint = f"run `{todo}`"
    try:
        damage = found.store.check(session.id)
    except CortextError as error:  # a link, for example: nothing that repair could fix
        return Problem(error.message, error.hint or todo, error.hint or hint)
    except OSError as error:
        return Problem(str(error), todo, hint)
    if any(item.kind == POINTER for item in damage):
        what = "Git LFS has not fetched its log, so its messages are missing"
        return Problem(what, f"git lfs pull, in {found.root}", f"run `git lfs pull` in {found.root}", damage)
    if unreadable := sum(item.kind in (UNREADABLE, TORN) for item in damage):
        what = f"{amount(unreadable, 'place')} of its log cannot be read, so messages may be missing"
        return Problem(what, todo, hint, damage)
    return Problem(f"{damage[0].file}: {damage[0].reason}", todo, hint, damage) if damage else None


def damage_note(found: Found) -> str:
    """Return a note on what is wrong with a session that is read as far as possible; empty if it is whole.

    Raises DamagedData if nothing of it is here, because Git LFS has not fetched it.
    """
    problem = problem_of(found)
    if problem is None:
        return ""
    for item in problem.damage:
        if item.kind == POINTER:
            raise not_fetched(f"{item.file} of {found.session.id}", item.reason)
    return problem.text
