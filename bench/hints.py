"""How often a hint is given, how often it is right, and what it costs: real conversations replayed in time order.

python -m bench.hints FOLDER PROJECT [--prompts 1500] [--keep DIR]

FOLDER has transcripts of Claude Code (`.jsonl`) about one project, PROJECT is a folder with that project's files. For
every prompt, in time order, a hint is looked for in what was said before that conversation began. It is right if the
rest of the conversation uses or repeats what it points to: it changes a file that was changed for it then and has a
third of the words of what the hint says, or it has two thirds of those words; words of the prompt itself do not count.
As a control, the same is asked for each hint and the rest of another conversation that got one.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from collections import Counter
from typing import NamedTuple

from bench.common import print_table, spread
from bench.faces import at_home, home_environment
from bench.why import kept_folder
from cortext.model.message import ASSISTANT, TOOL_CALL, Message
from cortext.services.digest.asks import ask_of
from cortext.services.digest.calls import strings_in
from cortext.services.hints.hints import KINDS, Hint, Hinter
from cortext.services.origin.edits import edits_in
from cortext.services.text.sentences import terms
from cortext.wiring.stores import Stores


class Outcome(NamedTuple):
    """A hint, the prompt that it was given with, and what followed."""

    hint: Hint
    prompt: str
    words: frozenset[str]
    changed: frozenset[str]

    def is_right(self, hint: Hint) -> bool:
        """Whether what followed uses what a hint points to."""
        said = terms(hint.says) - terms(self.prompt)
        if len(said) < 3:
            return False
        share = len(said & self.words) / len(said)
        files = {os.path.basename(path) for path in hint.files}
        return share >= 2 / 3 or (share >= 1 / 3 and bool(files & self.changed))


def main() -> None:
    """Print hints per 100 prompts, precision and milliseconds."""
    options = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    options.add_argument("folder")
    options.add_argument("project")
    options.add_argument("--prompts", type=int, default=1_500)
    options.add_argument("--keep", help="a folder in which the import is kept for the next run")
    given = options.parse_args()
    with kept_folder(given.keep) as folder:
        home = os.path.join(folder, "home")
        if not os.path.isdir(home):
            os.makedirs(home)
            program = os.path.join(os.path.dirname(sys.executable), "cortext")
            for words in (["import", given.folder], ["search", "--exact", "anything"]):
                subprocess.run([program, *words], env=home_environment(home), capture_output=True, check=False)
        with at_home(home):
            measure(os.path.abspath(given.project), given.prompts)


def measure(project: str, most: int) -> None:
    """Replay the conversations."""
    stores = Stores(project)
    search, listing = stores.search(), stores.listing()
    search.refresh(meaning=False)
    rows = sorted(listing.rows(), key=lambda row: row.created_at)
    outcomes: list[Outcome] = []
    seconds: list[float] = []
    prompts = 0
    for row in rows[len(rows) // 4 :]:  # the first quarter has hardly anything before it
        messages = list(listing.named_store(row.root).store.read(row.id))
        hinter = Hinter(listing, search, project, filters={"before": row.created_at}, leave_out=[row.id])
        given: set[str] = set()
        for index, message in enumerate(messages):
            asked = ask_of(message)
            if not asked or prompts >= most:
                continue
            prompts += 1
            begin = time.process_time()
            hint = hinter.hint(asked, messages[max(0, index - 8) : index], given)
            seconds.append(time.process_time() - begin)
            if hint is not None:
                given.add(hint.key)
                outcomes.append(Outcome(hint, asked, *_rest(messages[index + 1 :])))
    _report(outcomes, prompts, seconds)


def _rest(messages: list[Message]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the words that the model said or wrote, and the names of the files that it changed."""
    texts = [message.content for message in messages if message.role == ASSISTANT]
    texts += [
        text
        for message in messages
        for part in message.parts or ()
        if part.type == TOOL_CALL
        for text in strings_in(part.input)
    ]
    return terms("\n".join(texts)), frozenset(os.path.basename(edit.path) for edit in edits_in(messages))


def _report(outcomes: list[Outcome], prompts: int, seconds: list[float]) -> None:
    generator = random.Random(1)
    given: Counter[str] = Counter()
    right: Counter[str] = Counter()
    chance: Counter[str] = Counter()
    for outcome in outcomes:
        others = [other for other in outcomes if other.hint.row.id != outcome.hint.row.id]
        for kind in (outcome.hint.kind, "all"):
            given[kind] += 1
            right[kind] += outcome.is_right(outcome.hint)
            chance[kind] += bool(others) and generator.choice(others).is_right(outcome.hint)
    print(f"{prompts} prompts\n")
    table = [
        (
            kind,
            f"{given[kind]}",
            f"{100 * given[kind] / max(1, prompts):.1f}",
            f"{right[kind] / max(1, given[kind]):.0%}",
            f"{chance[kind] / max(1, given[kind]):.0%}",
        )
        for kind in (*KINDS, "all")
    ]
    print_table(("kind", "hints", "per 100 prompts", "precision", "of a hint by chance"), table)
    print(f"processor milliseconds of looking for one: {spread([one * 1000 for one in seconds]).show('{:.1f}')}")


if __name__ == "__main__":
    main()
