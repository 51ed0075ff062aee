"""Messages in batches of bounded size, so that a long conversation never has to fit into memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cortext.model.message import Message


def characters_in(message: Message) -> int:
    """Return about how many characters a message holds in memory: its text, its results, the texts of its calls."""
    size = len(message.content)
    for part in message.parts or ():
        size += len(part.output)
        if isinstance(part.input, dict):
            for value in part.input.values():
                if isinstance(value, str):
                    size += len(value)
    return size


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
            size += characters_in(message)
            if len(batch) >= most or size >= characters:
                yield batch
                batch, size = [], 0
    except Exception as error:  # noqa: BLE001 (raised below)
        failure = error
    if batch:
        yield batch
    if failure is not None:
        raise failure
