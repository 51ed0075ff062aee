"""A synthetic history for the search benchmarks: very many messages in very many sessions, written as files.

python -m bench.search_corpus [--messages 1000000] [--sessions 20000] [--folder .cache/corpus]
"""

from __future__ import annotations

import argparse
import os
import time
from importlib.resources import files

from bench.common import CACHE
from cortext.index.search.arrays import np

DAYS = 365
INVENTED = 270_000  # identifiers: they make the vocabulary of real coding sessions large
LENGTH = 37  # mean words per message; the median is about half
TOOLS = ("claude", "gemini", "opencode", "codex")
TYPES = ("brainstorm", "debug", "plan", "review")
STATUSES = ("paused", "completed", "paused", "active")


def words() -> tuple[np.ndarray, np.ndarray]:
    """Return words and their cumulative frequencies, which follow Zipf's law."""
    vocabulary = files("cortext").joinpath("embedding/vocab.txt").read_text(encoding="utf-8").split("\n")
    english = [word for word in vocabulary if word.isascii() and word.isalpha() and len(word) > 1]
    parts = [word for word in english if 3 < len(word) < 8]
    generator = np.random.default_rng(7)
    first, second = generator.integers(0, len(parts), (2, INVENTED))
    shape = generator.integers(0, 3, INVENTED)
    invented = [
        (f"{parts[a]}_{parts[b]}", f"{parts[a]}{parts[b].title()}", f"{parts[a]}/{parts[b]}.py")[form]
        for a, b, form in zip(first.tolist(), second.tolist(), shape.tolist(), strict=True)
    ]
    every = np.array(english + invented, dtype=object)
    weights = 1.0 / (np.arange(len(every)) + 2.7)
    # English words in the order of the vocabulary, which is roughly by frequency.
    return every, np.cumsum(weights) / weights.sum()


def make(folder: str, messages: int, sessions: int) -> int:
    """Write a workspace of this size, unless it exists; return the bytes of text in it."""
    stamp = os.path.join(folder, ".workspace", f"made-{messages}-{sessions}")
    if os.path.exists(stamp):
        with open(stamp, encoding="ascii") as file:
            return int(file.read())
    every, cumulative = words()
    generator = np.random.default_rng(11)
    each = messages // sessions
    size = 0
    for number in range(sessions):
        count = each + (number < messages - each * sessions)
        lengths = np.clip(generator.lognormal(np.log(LENGTH * 0.55), 1.1, count), 2, 4000).astype(int)
        drawn = every[np.searchsorted(cumulative, generator.random(int(lengths.sum())))].tolist()
        size += _session(folder, number, lengths.tolist(), drawn, sessions)
    os.makedirs(os.path.dirname(stamp), exist_ok=True)
    with open(stamp, "w", encoding="ascii") as file:
        file.write(str(size))
    return size


def _session(folder: str, number: int, lengths: list[int], drawn: list[str], sessions: int) -> int:
    begin = time.gmtime(1_730_000_000 + number * (DAYS * 86_400 // sessions))
    day, second = time.strftime("%Y-%m-%d", begin), time.strftime("%Y-%m-%dT%H:%M:%S", begin)
    name = f"{number:06}-{TYPES[number % 4]}-{drawn[0][:12].lower().replace('/', '-').replace('.', '-')}"
    path = os.path.join(folder, "conversations", day, name, ".session")
    os.makedirs(path)
    lines, start, size = [], 0, 0
    for seq, length in enumerate(lengths):
        text = " ".join(drawn[start : start + length])
        start += length
        size += len(text)
        lines.append(
            f'{{"role": "{("user", "assistant")[seq % 2]}", "content": "{text}", "timestamp": "{second}.{seq:03}Z", '
            f'"tokens": {len(text) // 4}, "id": "{number:010x}{seq:08x}", "seq": {seq}}}\n'
        )
    with open(os.path.join(path, "messages.jsonl"), "w", encoding="ascii") as file:
        file.writelines(lines)
    with open(os.path.join(path, "session.json"), "w", encoding="ascii") as file:
        file.write(
            f'{{"version": "1.0", "conversation_id": "{name}", "conversation_type": "{TYPES[number % 4]}", '
            f'"title": "{" ".join(drawn[:5])}", "status": "{STATUSES[number // 4 % 4]}", '
            f'"created_at": "{second}.000Z", '
            f'"last_active": "{second}.{len(lengths):03}Z", "context_summary": "{" ".join(drawn[5:25])}", '
            f'"continuation": {{"tool": "{TOOLS[number % 3]}", "session_id": "s{number}"}}}}\n'
        )
    return size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--sessions", type=int, default=20_000)
    parser.add_argument("--folder", default=os.path.join(CACHE, "corpus"))
    options = parser.parse_args()
    begin = time.perf_counter()
    size = make(options.folder, options.messages, options.sessions)
    print(f"{options.messages:,} messages, {size / 1e6:.0f} MB of text, in {time.perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    main()
