"""Keeping order on the page: tags, stars, notes and the archive, as the commands of these names change them."""

from __future__ import annotations

from starlette.datastructures import FormData

from cortext.errors import UsageError
from cortext.services.library.listing import Row
from cortext.services.library.stores import Found
from cortext.services.workspace import order
from cortext.web.library import Library
from cortext.web.pages import address

MOST_TAGS = 20  # in one form


def _saved(found: Found, row: Row, said: str) -> str:
    """Save a conversation, so that the change reaches other machines; return where to go next, with what was said."""
    note = order.save(found.named_store, [row.id])
    return address(row, note=f"{said} Note: {note}." if note else said)


def _is_on(form: FormData) -> bool:
    return form.get("on", "yes") == "yes"


def star(services: Library, row: Row, form: FormData) -> str:
    """Give it a star, or take it away."""
    found = services.found(row)
    order.set_star(found.named_store, found.session, on=_is_on(form))
    return _saved(found, row, "Starred." if _is_on(form) else "The star was removed.")


def archive(services: Library, row: Row, form: FormData) -> str:
    """Hide it from lists, or show it again."""
    found = services.found(row)
    order.set_archived(found.named_store, found.session, on=_is_on(form))
    return _saved(found, row, "Archived: still found by a search." if _is_on(form) else "Taken out of the archive.")


def tag(services: Library, row: Row, form: FormData) -> str:
    """Add tags, or remove them."""
    tags = [order.checked_tag(word) for word in str(form.get("tags", "")).replace(",", " ").split()]
    if not tags or len(tags) > MOST_TAGS:
        raise UsageError("no tag was given" if not tags else "too many tags", kept="nothing was changed")
    found = services.found(row)
    order.set_tags(found.named_store, found.session, tags, on=_is_on(form))
    names = " ".join(f"#{name}" for name in tags)
    return _saved(found, row, f"Tagged {names}." if _is_on(form) else f"Removed {names}.")


def note(services: Library, row: Row, form: FormData) -> str:
    """Add a note, or remove one by its number."""
    found = services.found(row)
    number = str(form.get("remove", ""))
    if number.isascii() and number.isdigit() and len(number) < 9:
        order.remove_note(found.named_store, found.session, int(number))
        return _saved(found, row, "The note was removed.")
    order.add_note(found.named_store, found.session, str(form.get("text", "")))
    return _saved(found, row, "Noted.")
