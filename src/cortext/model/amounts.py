"""Numbers of things in sentences: "1 message", "2 messages"; "once", "2 times"."""


def amount(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"
