"""Which phrases end a conversation for now, and which only look like it."""

from __future__ import annotations

import pytest

from cortext.config.schema import Settings
from cortext.model.session import Session
from cortext.services.workspace.pausing import LONGEST, react_to_prompt, saved, wants_to_pause
from cortext.testing.table import every_row

PAUSE = """
let's stop
Let's stop here.
Let's stop there for today!
let’s stop for now
lets stop now
OK, let's stop here for today.
Alright, let's pause here
Let's leave it there.
Let's leave it here for now
Let's call it a day
Let's call it a night.
let's wrap up
Let's wrap this up for today.
Let's take a break.
Let's take a short break
Let's pick this up later
Let's pick this up tomorrow.
Let's continue tomorrow
Let's continue this later.
that's enough for now
That's enough for today, thanks!
That's all for now.
That's it for today
OK that's it for tonight.
That is enough for today.
I need to go
I need to go now.
I have to go
I've got to go
Sorry, I gotta run.
Gotta go!
I must go now
I should get going
Thanks! I have to run.
Thanks, I need to leave now.
I need to go to bed
I have to go to a meeting.
I need to sleep
I'm done for today.
I am done for now
I'm off for today, bye!
I'm heading out
Talk to you later
See you tomorrow!
Good night
Great, thanks. Good night!
Enough for today.
Pause here please
Stop for today
Let's stop here, thanks
That answers it. Let's stop here.
We should stop here for today
"""

WORK = """
let's stop the server
Let's stop the container and start it again
let's stop using GraphQL
Let's stop here and think about the schema first, then write the migration
let's stop when the queue is empty
Let's pause the deployment
let's pause the video at 0:10
Let's leave it as a string
Let's leave it there and rename the other one instead
let's wrap it up in a function
Let's wrap this up in a try block
let's wrap up the errors with context
let's take a break statement as the example
Let's pick this up from the environment
Let's continue
Let's continue with the tests
Let's go
let's go on
stop words
stop
Stop!
stop it
Stop here documents from being expanded
stop this container
remove stop words
What are stop words in search?
pause
pause the job
Should we stop here?
Is that enough for now?
that's enough memory for now?
That's enough memory for now
That's enough
that's it
That's all
that's all the output
That's it! The bug is in the parser.
that's all for now, but next explain the lock
I need to go over the plan
I need to go to production with this
I need to go to the settings page
I have to go through the list
I have to run the tests
I need to run this now
We need to go faster
We have to go with REST
I need to leave it in
I need to leave now() in the query
I need to stop the server
We must stop here in the debugger
I must stop polling
I need to sleep 5 seconds between calls
I'm done
I'm done with step two
I am done with the tests for now, what is next?
I'm out of ideas
I'm off by one
I'm leaving the default as it is
See you later in the loop variable
the message says "see you later"
print("good night")
goodnight = True
Translate: good night
How do I say good night in Japanese?
enough for now we have 3 GB
Write a story that ends with: Let's stop here.
He said "I have to go"
What does "let's call it a day" mean?
"""

CODE = [
    "```python\nwhile True:\n    pass\n# let's stop here\n```",
    "def f():\n    # that's enough for now\n    return 1",
    "$ systemctl stop nginx\n$ echo let's stop here",
    "> I need to go",
    "The log says:\n\nworker: I need to go\nworker: let's stop",
    "/workspace.brainstorm let's stop here",
    "x" * LONGEST + " Let's stop here.",
    "First explain the index. Then the lock. " * 12 + "That's enough for now.",
    "",
    "   \n",
    "?",
    "Let's stop here?",
]


def _phrases(text: str) -> list[str]:
    return [line for line in text.splitlines() if line]


@pytest.mark.req("SESS-005d")
def test_the_tables_have_their_intended_size() -> None:
    assert len(set(_phrases(PAUSE))) >= 40
    assert len({*_phrases(WORK), *CODE}) >= 60


@pytest.mark.req("SESS-005d")
@every_row("text", _phrases(PAUSE))
def test_a_goodbye_is_recognised(text: str) -> None:
    for form in (text, text.lower(), text.upper(), f"  {text}\n", f"Makes sense.\n{text}"):
        assert wants_to_pause(form), form


@pytest.mark.req("SESS-005d")
@every_row("text", [*_phrases(WORK), *CODE])
def test_work_is_not_mistaken_for_a_goodbye(text: str) -> None:
    assert not wants_to_pause(text)


@pytest.mark.req("SESS-005d")
@pytest.mark.parametrize("text", ["Hören wir hier auf.", "À demain !", "basta por hoy", "今日はここまで", "BIS MORGEN"])
def test_other_languages_work_through_the_setting(text: str) -> None:
    more = "hören wir hier auf, à demain , basta por hoy,今日はここまで, bis morgen,,"
    assert not wants_to_pause(text)
    assert wants_to_pause(text, more)


@pytest.mark.req("SESS-005d")
@pytest.mark.parametrize(
    "text", ["bis morgen muss der Test laufen, fang bitte an", "was heißt bis morgen?", "das Wort bis morgendlich"]
)
def test_phrases_of_the_setting_match_whole_words_at_the_end(text: str) -> None:
    assert not wants_to_pause(text, "bis morgen")


def _session(count: int = 4, **extra: object) -> Session:
    return Session(id="001-plan-x", title="The plan", message_count=count, extra=dict(extra))


@pytest.mark.req("SESS-005d")
def test_the_model_is_told_what_to_tell_the_user() -> None:
    reaction = react_to_prompt("let's stop here", _session(), Settings())
    assert '"The plan" is saved' in reaction.context and "/workspace.resume" in reaction.context
    assert reaction.change is not None and reaction.change.extra == {"pause_after_answer": True}


@pytest.mark.req("SESS-005d")
def test_a_refused_offer_is_repeated_only_after_much_new_text() -> None:
    session = _session(40)
    offered = react_to_prompt("go on", session, Settings())
    assert "whether to save" in offered.context and offered.change is not None
    session.extra |= offered.change.extra or {}
    assert react_to_prompt("go on", session, Settings()) == ("", None), "asked once"
    for no in ("no", "No.", "nope", "not now", "no thanks", "No, thank you!", "later", "don't save", "skip it"):
        change = react_to_prompt(no, session, Settings()).change
        assert change is not None and change.extra == {"save_declined": True}, no
    for other in ("no, use the other index", "later versions of it", "yes", "don't drop the table"):
        assert react_to_prompt(other, session, Settings()).change is None, other
    session.extra |= {"save_declined": True}
    session.message_count = 400
    assert react_to_prompt("go on", session, Settings()) == ("", None)
    session.extra |= saved(session).extra or {}
    assert react_to_prompt("go on", session, Settings()).context == ""
    session.message_count = 440
    assert "whether to save" in react_to_prompt("go on", session, Settings()).context
