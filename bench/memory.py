"""Peak memory of the commands with a long history: very many messages in one conversation, or one huge line.

python -m bench.memory [--messages 200000] [--line 100]

Each command is a separate process; its peak includes its child processes (git). Bounded memory does not grow from the
small size (a hundredth) to the large one. `--line` is in megabytes.
"""

from __future__ import annotations

import glob
import os
import subprocess
import sys

from tests.support.much import MEGABYTE, taken, write_log

from bench.common import arguments, child_environment, print_table, work_folder

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


def main() -> None:
    options = arguments(__doc__ or "", messages=200_000, line=100)
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


if __name__ == "__main__":
    main()
