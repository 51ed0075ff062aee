"""Peak memory and time with very much: messages, a line, a transcript of 2 GB, adversarial text."""

from __future__ import annotations

import glob
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

from tests.safety.test_secrets import HOSTILE
from tests.support.much import HUGE_ID, MEGABYTE, taken, write_huge_transcript, write_log

from bench.common import arguments, child_environment, parser_of, print_table, work_folder
from cortext.model.message import Message
from cortext.safety.secrets import masking as secrets
from cortext.services.text.summaries import summarise
from cortext.tools import registry

SESSION = "001-plan-herons"
CORTEXT = os.path.join(os.path.dirname(sys.executable), "cortext")
COMMANDS = (
    ("list",),
    ("search", "--exact", "dawn"),
    ("search", "dawn"),
    ("show", SESSION),
    ("show", SESSION, "--tail", "5"),
    ("export", SESSION),
    ("resume", SESSION, "--dry-run", "--ai", "claude"),
    ("doctor",),
    ("stop", SESSION, "--no-commit"),
    ("stop", SESSION),
)
HUGE_COMMANDS = (
    ("import",),
    ("import",),  # nothing is new
    ("list",),
    ("search", "heron", "number", "12"),
    ("search", "--exact", "heron number 12"),
    ("show", HUGE_ID, "--tail", "5"),
    ("export", HUGE_ID),
    *(("resume", HUGE_ID, "--ai", name, "--dry-run") for name in registry.BUILT_IN),
    ("resume", HUGE_ID, "--print"),
    ("doctor",),
)


def peaks(messages: int, line: int) -> list[str]:
    """Return the peak of every command in MB, with the exit status of a failed one."""
    found = []
    with work_folder() as folder:
        names = {f"GIT_{who}_{what}": "bench" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        environ = child_environment(HOME=folder, **names)
        work = os.path.join(folder, "work")
        os.makedirs(work)
        for words in (("git", "init", "-q"), (CORTEXT, "init", "--ai", "claude"), (CORTEXT, "new", "plan", "Herons")):
            subprocess.run(words, cwd=work, env=environ, check=True, capture_output=True)
        [log] = glob.glob(os.path.join(work, "conversations", "*", SESSION, ".session", "messages.jsonl"))
        write_log(log, messages=messages, line=line * MEGABYTE)
        for command in COMMANDS:
            done = taken((CORTEXT, *command), cwd=work, env=environ)
            found.append(f"{done.peak:.0f}" + (f" (exit {done.code})" if done.code else ""))
    return found


def run_memory() -> None:
    """Peak memory of the commands with a long history: very many messages in one conversation, or one huge line.

    python -m bench memory [--messages 200000] [--line 100]

    Each command is a separate process; its peak includes its child processes (git). Bounded memory does not grow from
    the small size (a hundredth) to the large one. `--line` is in megabytes.
    """
    options = arguments(run_memory, messages=200_000, line=100)
    few, short = options.messages // 100, max(1, options.line // 100)
    columns = {
        f"{few:,} messages": peaks(few, 0),
        f"{options.messages:,}": peaks(options.messages, 0),
        f"a line of {short} MB": peaks(20, short),
        f"{options.line} MB": peaks(20, options.line),
    }
    rows = zip((" ".join(words) for words in COMMANDS), *columns.values(), strict=True)
    print("\nPeak memory, MB\n")
    print_table(("cortext …", *columns), list(rows))


def measured(megabytes: int) -> list[str]:
    """Return peak memory and time of every command with a transcript of this size."""
    found = []
    with work_folder() as folder:
        project = os.path.join(folder, "work")
        os.makedirs(project)
        write_huge_transcript(folder, project, megabytes)
        environ = child_environment(HOME=folder)
        for command in HUGE_COMMANDS:
            started = time.monotonic()
            done = taken((CORTEXT, *command), cwd=project, env=environ)
            seconds = time.monotonic() - started
            found.append(f"{done.peak:.0f} MB, {seconds:.1f} s" + (f" (exit {done.code})" if done.code else ""))
            print(f"{megabytes:,} MB: {' '.join(command)}: {found[-1]}", file=sys.stderr, flush=True)
    return found


def run_huge() -> None:
    """A transcript of 2 GB: peak memory and time of the commands, beside a transcript of a hundredth of its size.

    python -m bench huge [--megabytes 2000]

    The transcript is Claude Code's: turns with a tool call whose result has about a megabyte, as logs and builds have.
    The whole conversation never fits a model, so the resume writes the newest messages that do.
    """
    options = arguments(run_huge, megabytes=2_000)
    small = max(1, options.megabytes // 100)
    columns = {f"{small} MB": measured(small), f"{options.megabytes:,} MB": measured(options.megabytes)}
    rows = zip((" ".join(words) for words in HUGE_COMMANDS), *columns.values(), strict=True)
    print("\nPeak memory and time\n")
    print_table(("cortext …", *columns), list(rows))


def seconds(work: Callable[[], object]) -> float:
    """Return the CPU time of one run."""
    start = time.process_time()
    work()
    return time.process_time() - start


def run_hostile() -> None:
    """Adversarial text: masking 62,500 and 1,000,000 characters of it, and a summary of 10,000 messages.

    python -m bench hostile

    For the megabyte, linear work takes 16 times as long and quadratic work 256 times.
    """
    parser_of(run_hostile).parse_args()
    secrets.mask("x" * 1000)  # compile the patterns
    for name, piece in HOSTILE.items():
        text = (piece * (1_000_000 // len(piece) + 1))[:1_000_000]
        small, large = seconds(partial(secrets.mask, text[:62_500])), seconds(partial(secrets.mask, text))
        print(f"mask {name:12} {small * 1000:8.1f} ms {large * 1000:8.1f} ms   x{large / max(small, 1e-4):.0f}")
    messages = [
        Message(role="user", content=f"Line {number} of a long conversation about this.") for number in range(10_000)
    ]
    print(f"summary of 10,000 messages {seconds(lambda: summarise(messages)) * 1000:8.1f} ms")
