"""A worker of a bot: claims a chat and answers its waiting updates in order. It may be killed at any moment.

The ids of its messages are derived from the update's number, so a worker that takes over can repeat the last step
without storing a message twice.
"""

from __future__ import annotations

import random
import sys

from cortext.model.message import Message
from cortext.server.store import PostgresStore

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
                    break  # another worker took over
                text = str(taken.body["text"])
                store.append(chat, Message(role="user", content=text, id=f"u-{taken.update}"))
                store.append(chat, Message(role="assistant", content=f"re: {text}", id=f"a-{taken.update}"))
                updates.done(taken.update)
            claims.finish(claim)
    store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
