"""Numbers of things in sentences: "1 message", "2 messages"."""


def amount(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
