"""A worker of a bot: claims a chat, answers what waits in it, in order; and may be killed at any moment.

Its messages have ids that follow from the update's number. So a worker that takes over may do the last step again, and
it is done once.
"""

from __future__ import annotations

import random
import sys

from cortext.model.message import Message
from cortext.store.postgres.store import PostgresStore

CLAIM = 1.0  # seconds


def main(url: str, space: str, bot: str) -> None:
    store = PostgresStore(url, space, lease=CLAIM)
    updates, claims = store.updates(int(bot)), store.claims()
    while waiting := updates.waiting():
        chats = list({taken.chat for taken in waiting})
        random.shuffle(chats)
        for chat in chats:
            claim = claims.claim("chat", f"{space}-{chat}", CLAIM)
            if claim is None:
                continue
            for taken in updates.waiting(chat):
                if not claims.renew(claim, CLAIM):
                    break  # another has it by now
                text = str(taken.body["text"])
                store.append(chat, Message(role="user", content=text, id=f"u-{taken.update}"))
                store.append(chat, Message(role="assistant", content=f"re: {text}", id=f"a-{taken.update}"))
                updates.done(taken.update)
            claims.finish(claim)
    store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
