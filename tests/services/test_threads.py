"""The thread of a stored session, read lazily, is the same as the thread of all its messages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortext.model.message import BEGINNING, REPLACES, Message
from cortext.model.session import Session
from cortext.model.threads import thread
from cortext.services.text.threads import StoredThread
from cortext.store.files.lines import encode_message
from tests.support.memory_store import MemoryStore

NAMES = [f"m{number}" for number in range(8)]
PARENTS = st.sampled_from(["", "", "", BEGINNING, "nobody", *NAMES])
ROLES = st.sampled_from(["user", "assistant"])
REPLACED = st.sampled_from(["", "", "", "nobody", *NAMES])
MESSAGES = st.lists(
    st.tuples(st.sampled_from(NAMES), PARENTS, st.booleans(), st.booleans(), ROLES, REPLACED), max_size=12
)


@pytest.mark.req("SAFE-06")
@given(MESSAGES)
def test_a_stored_thread_is_the_same_as_one_in_memory(drawn: list[tuple[str, str, bool, bool, str, str]]) -> None:
    store = MemoryStore()
    store.create(Session(id="s"))
    messages = [
        Message(
            role=role,
            content=str(seq),
            id=name,
            seq=seq,
            parent=parent,
            partial=partial,
            aside=aside,
            extra={REPLACES: replaced} if replaced else None,
        )
        for seq, (name, parent, partial, aside, role, replaced) in enumerate(drawn)
    ]
    store._find("s").lines.extend(map(encode_message, messages))
    found = StoredThread(store, "s")
    assert [message.seq for message in found] == [message.seq for message in thread(messages)]
    assert list(found) == list(found)
