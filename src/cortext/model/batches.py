"""Messages in batches of bounded size, so that a long conversation never has to fit into memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cortext.model.message import Message


def batches(messages: Iterable[Message], *, most: int, characters: int) -> Iterator[list[Message]]:
    """Yield batches that end after `most` messages or when they have at least this many characters.

    If reading fails, the messages read before that are yielded first.
    """
    batch: list[Message] = []
    size = 0
    failure: Exception | None = None
    try:
        for message in messages:
            batch.append(message)
            size += len(message.content)
            if message.parts is not None:
                for part in message.parts:
                    size += len(part.output)
            if len(batch) >= most or size >= characters:
                yield batch
                batch, size = [], 0
    except Exception as error:  # noqa: BLE001 (raised below)
        failure = error
    if batch:
        yield batch
    if failure is not None:
        raise failure
