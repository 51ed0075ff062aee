"""`alfred` and `alfred "question"`: a conversation in the terminal, or one answer on standard output."""

from __future__ import annotations

import argparse

from cortext.agents.terminal.interrupt import echo_by_prompt_only
from cortext.errors import UsageError
from cortext.faces.terminal.args import Help
from cortext.wiring.stores import Stores


def run(arguments: list[str]) -> int:
    """Start a conversation, or answer the question on the command line (`-`: on standard input)."""
    parser = argparse.ArgumentParser(
        prog="alfred",
        description="Start a conversation with your assistant, or ask it one question.",
        formatter_class=Help,
    )
    parser.add_argument("question", nargs="*", help="a question; piped input is added after it, or in place of -")
    parser.add_argument("--model", default="", help="the model, as provider/name (default: from the settings)")
    parser.add_argument("--new", action="store_true", help="start a new session")
    parser.add_argument("--session", metavar="ID", default="", help="continue this session, of any tool")
    parser.add_argument("--json", action="store_true", help="print the answer to a question as JSON")
    options = parser.parse_args(arguments)
    if not options.question and not options.json:
        with echo_by_prompt_only():  # before the slow imports: people type before the prompt appears
            from cortext.agents.alfred.loop import Loop

            return Loop(Stores(), options.model).talk(new=options.new, session=options.session)
    from cortext.agents.alfred.loop import Loop
    from cortext.agents.terminal.prompt import question_of

    question = question_of(options.question or ["-"])
    if not question:
        raise UsageError("the question is empty", hint='use: alfred "question"')
    loop = Loop(Stores(), options.model)
    return loop.once(question, new=options.new, session=options.session, as_json=options.json)
