"""Title and summary: verbatim from the conversation, short and deterministic."""

from __future__ import annotations

import json
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortext.model import tokens
from cortext.model.message import ASSISTANT, TOOL, TOOL_RESULT, USER, Message, Part
from cortext.services.text.sentences import sentences
from cortext.services.text.summaries import summarise
from cortext.services.text.titles import title
from cortext.services.workspace import demo
from cortext.testing.table import every_row

pytestmark = pytest.mark.req("SESS-001b")

DEMOS = {script.slug: list(demo._messages(script, 0.0)) for script in demo.scripts()}
CHATTER = [
    "Good morning, I hope the coffee is strong today and the train was on time.",
    "That sounds lovely, tell me more about the weather over there.",
    "The office dog has learned to open the fridge with her nose.",
    "I listened to an album about lighthouses while walking home yesterday evening.",
    "Somebody left a bicycle in the corridor again and everybody walks around it.",
    "Lunch was lentils, and the queue reached all the way to the lifts.",
]


def conversation(*texts: str) -> list[Message]:
    """Return messages with these texts, user and assistant in turn."""
    return [
        Message(role=USER if number % 2 == 0 else ASSISTANT, content=text, id=f"m{number}", seq=number)
        for number, text in enumerate(texts)
    ]


NOTES = r" \((?:not answered yet|the user said no|rejected later|to: .*?)\)"
LABELS = re.compile(rf"(?:^| )(?:User|Agent|Last ask|Answer): |{NOTES}")


def flat(text: str) -> str:
    """Return a text without what a summary may change: white space, emphasis, added full stops."""
    return re.sub(r"[\s*_>.。]+", "", text)


@every_row("slug", DEMOS)
def test_summaries_of_the_demos_are_verbatim_and_within_the_budget(slug: str) -> None:
    messages = DEMOS[slug]
    summary = summarise(messages)
    assert 60 <= tokens.estimate(summary) <= 260  # 165, and the 500 characters of what was last, which are in it
    original = flat("".join(message.content for message in messages))
    said = LABELS.sub("\n", summary)
    for sentence in re.split(r"(?<=[.!?…])\s+|(?<=[。！？])|\n", said):
        assert flat(sentence.rstrip("…")) in original
    assert summarise(messages) == summary
    assert "```" not in summary
    assert "| " not in summary
    assert 8 <= len(title(messages)) <= 120
    assert "\n" not in title(messages)


@every_row(
    ("slug", "named", "facts"),
    [
        ("api-design-discussion", "internal services", ["REST", "GraphQL", "OpenAPI", "lint rules"]),
        ("auth-token-expiry", "Kitchen tablets get logged out", ["refresh tokens 30 days", "10 seconds"]),
        ("bigint-migration-plan", "Postgres", ["bigint", "168 GB", "Kotlin"]),
        ("release-4-2-retro", "4.2 retro", ["oat milk", "51 minutes"]),
        ("rate-limiter-review", "PR 412", ["fail open", "tenant", "163"]),
        ("trial-conversion-drop", "conversion fell", ["14 days", "partner"]),
        ("flaky-cache-test", "test_reorder_cache", ["FLUSHALL", "xdist"]),
        ("naming-the-replay-tool", "name for an internal CLI", ["crumbs", "stock-movement-replay-v2"]),
        ("idempotenz-auf-deutsch", "Leipzig", ["webhook", "Transaktion", "31 Küchen"]),
        ("billing-out-of-monolith", "billing out of our monolith", ["finance"]),
    ],
)
def test_the_demos_keep_their_key_facts(slug: str, named: str, facts: list[str]) -> None:
    assert named in title(DEMOS[slug])
    summary = summarise(DEMOS[slug])
    assert [fact for fact in facts if fact not in summary] == []


@pytest.mark.parametrize("budget", [20, 60, 165, 400])
def test_the_budget_is_kept_and_used(budget: int) -> None:
    sizes = [tokens.estimate(summarise(messages, budget=budget)) for messages in DEMOS.values()]
    assert max(sizes) <= budget
    assert sum(sizes) >= 0.6 * budget * len(sizes)


@pytest.mark.parametrize(
    "decision",
    [
        "We decided to keep Postgres and to drop the second replica in March.",
        "Agreed, the importer runs nightly and writes to the staging bucket.",
        "It turned out that the cache key lacked the tenant.",
        "Wir haben beschlossen, den Import nachts laufen zu lassen.",
        "The root cause was a missing await in the session store.",
    ],
)
def test_a_decision_is_kept_wherever_it_was_said(decision: str) -> None:
    for seed in range(5):
        lines = CHATTER * 3
        random.Random(seed).shuffle(lines)
        lines = [f"{line} Number {number}." for number, line in enumerate(lines)]
        lines.insert(random.Random(seed).randrange(2, 14), f"{CHATTER[0]} {decision} {CHATTER[1]}")
        assert decision.rstrip(".") in summarise(conversation(*lines))


@pytest.mark.req("SELF-01")
def test_a_summary_has_the_order_and_speakers_of_the_talk_and_its_last_ask() -> None:
    talk = conversation(
        "How should our internal services talk to each other?",
        "I suggest GraphQL with one gateway, because the mobile app speaks it already.",
        "No, that is too much machinery for seven services.",
        "We could use Kafka for the events, it scales well.",
        "We go with REST and OpenAPI, and the outbox in Postgres instead of Kafka.",
        "Noted: the contracts live in the folder contracts/.",
        "Which service goes first?",
        "The orders service, because it has the most callers. Should I write its contract now?",
    )
    assert summarise(talk) == (
        "User: How should our internal services talk to each other? "
        "Agent: I suggest GraphQL with one gateway, because the mobile app speaks it already (the user said no). "
        "User: No, that is too much machinery for seven services. "
        "Agent: We could use Kafka for the events, it scales well (rejected later). "
        "User: We go with REST and OpenAPI, and the outbox in Postgres instead of Kafka. "
        "Agent: Noted: the contracts live in the folder contracts/. "
        "Last ask: Which service goes first? "
        "Answer: The orders service, because it has the most callers. Should I write its contract now?"
    )
    agreed = [*talk, Message(role=USER, content="yes", id="m8", seq=8)]
    assert summarise(agreed).endswith('Last ask: yes (to: "Should I write its contract now?") (not answered yet)')


@pytest.mark.req("SELF-01")
def test_our_own_commands_and_their_answers_are_not_in_a_summary() -> None:
    talk = conversation(CHATTER[0], CHATTER[1], "/workspace.stop-conversation", "Session saved, of course.", "hold on")
    said = summarise(talk[:4])
    assert "Session saved" not in said
    assert "stop-conversation" not in said
    assert summarise(talk, leave_out=lambda text: text == "hold on") == said


def test_a_denied_decision_is_not_a_decision() -> None:
    lines = [
        "The team met about storage for an hour.",
        "Nobody has decided anything about the bucket so far.",
        *CHATTER,
    ]
    lines.append("We settled on the small bucket in Frankfurt with a lifecycle rule.")
    said = summarise(conversation(*lines, *CHATTER[:2]), budget=90)
    assert "We settled on the small bucket" in said
    assert "Nobody has decided" not in said


def test_an_unanswered_question_is_kept_verbatim() -> None:
    asked = "Which of the two regions should hold the backups?"
    assert asked in summarise(conversation(*CHATTER[:4], f"The bucket exists now. {asked}"), budget=80)
    waiting = conversation(*CHATTER[:5], f"I created the bucket in both regions. {asked}")
    assert asked in summarise(waiting, budget=80)
    assert summarise(waiting).endswith(asked)
    answered = conversation(*CHATTER[:3], asked, "Frankfurt, because the law says so.", "Noted.", CHATTER[4])
    assert asked not in summarise(answered)


def test_code_tables_logs_and_tool_output_are_left_out() -> None:
    content = (
        "The importer lost rows on Tuesday because the reader stopped at a null byte.\n\n"
        "```python\nsecret_code_line = reader.read_everything_at_once(path)\n```\n\n"
        "| column | value of the table |\n|---|---|\n| rows lost in the table | 41 |\n\n"
        "2026-01-12 10:02:11 ERROR importer crashed while reading the log line\n"
        'Traceback (most recent call last):\n  File "importer.py", line 3, in read_the_traceback\n\n'
        "    indented_code_is_code_too(because=True)\n\n"
        "$ ./run --with a command that was typed\n"
        "<system-reminder>remember the hidden reminder about nothing at all</system-reminder>\n"
        "The fix checks the length first, and 41 rows came back."
    )
    result = Part(type=TOOL_RESULT, call_id="1", output="The tool said a long sentence about nothing in particular.")
    messages = [Message(role=USER, content=content), Message(role=TOOL, parts=[result])]
    summary = summarise(messages)
    assert "null byte" in summary
    assert "41 rows came back" in summary
    for left_out in (
        "secret_code_line",
        "of the table",
        "log line",
        "traceback",
        "indented",
        "typed",
        "hidden",
        "tool said",
    ):
        assert left_out not in summary


def test_asides_and_partial_replies_are_left_out() -> None:
    messages = conversation(*CHATTER)
    messages.append(Message(role=ASSISTANT, content="We decided on a side agent's whim to paint it green.", aside=True))
    messages.append(Message(role=ASSISTANT, content="We decided to cut this reply in the mid", partial=True))
    assert "decided" not in summarise(messages)


def test_chinese_and_japanese_are_summarised() -> None:
    chinese = conversation(
        "我们的订单服务每天早上都会超时，请帮我找出原因。",
        "我查看了日志。问题的原因是数据库连接池只有五个连接。早上八点有四十个任务同时启动。",
        "那么怎么解决？",
        "我们决定把连接池增加到二十个，并且把任务分散到半个小时之内。下一步是观察三天。",
    )
    summary = summarise(chinese, budget=120)
    assert "我们决定把连接池增加到二十个，并且把任务分散到半个小时之内。" in summary
    assert "Last ask: 那么怎么解决？" in summary
    assert tokens.estimate(summary) <= 120
    assert title(chinese).startswith("我们的订单服务")
    assert "下一步是观察三天" in summary.partition("Answer: ")[2]
    japanese = conversation(
        "キャッシュのテストが不安定です。原因を調べてください。",
        "FLUSHALLが原因でした。各ワーカーに専用のデータベースを使うことに決めました。",
    )
    assert "決めました" in summarise(japanese)


def test_german_is_summarised() -> None:
    messages = conversation(
        "Unser Webhook zählt jede Lieferung doppelt, und in 31 Küchen stimmt der Bestand nicht.",
        "Die Ursache ist ein fehlender Schlüssel: Der Lieferant wiederholt jede Nachricht nach 5 Sekunden.",
        "Und was machen wir jetzt?",
        "Wir haben beschlossen, die Schlüssel 30 Tage aufzuheben. Als Nächstes prüfe ich die Küchen in Leipzig.",
    )
    summary = summarise(messages)
    assert "Wir haben beschlossen, die Schlüssel 30 Tage aufzuheben." in summary
    assert "31 Küchen" in summary
    assert title(messages).startswith("Unser Webhook zählt jede Lieferung doppelt")


@every_row(
    ("prompts", "expected"),
    [
        (["/workspace.brainstorm API design"], "API design"),
        (["/workspace.debug auth token expiry", "It fails at night."], "Auth token expiry"),
        (
            ["/workspace.plan", "Sure.", "Move the billing tables to their own schema."],
            "Move the billing tables to their own schema",
        ),
        (
            ["hi", "Hello!", "Can you please review the rate limiter in the gateway?"],
            "Review the rate limiter in the gateway?",
        ),
        (["Hey there!", "Hi.", "thanks", "Sure.", "Fix the flaky cache test"], "Fix the flaky cache test"),
        (["I want to rename the replay tool before Friday."], "Rename the replay tool before Friday"),
        (
            ["Implement the following plan:\n\n# Move billing to its own schema\n\nFirst."],
            "Move billing to its own schema",
        ),
        (["1", "Sure.", "Rename the replay tool"], "Rename the replay tool"),
        (["https://example.com/a/b", "I see.", "Summarise this page"], "Summarise this page"),
        (["/compact", "Done.", "Fix the flaky cache test"], "Fix the flaky cache test"),
        (["[Request interrupted by user]", "Well.", "Fix the flaky cache test"], "Fix the flaky cache test"),
        (["Implement the following plan:"], "Implement the following plan"),
        (["https://example.com/a/b"], "https://example.com/a/b"),
        (["ok"], "ok"),
        ([], ""),
        ([""], ""),
    ],
)
def test_a_title_is_what_the_user_first_asked_for(prompts: list[str], expected: str) -> None:
    assert title(conversation(*prompts)) == expected


def test_a_title_is_not_cut() -> None:
    words = "please compare every storage engine that we have ever benchmarked on the old machine with the new one"
    assert title(conversation(f"{words}.")) == words.removeprefix("please ").capitalize()


def test_empty_and_tiny_conversations() -> None:
    for messages in (
        [],
        conversation(""),
        [Message(role=TOOL, content="output only")],
        conversation("```\ncode only\n```"),
    ):
        assert summarise(messages) == ""
    one = conversation("The importer stops at a null byte in row 41.")
    assert summarise(one) == "User: The importer stops at a null byte in row 41. (not answered yet)"
    assert title(one) == "The importer stops at a null byte in row 41"


def test_a_decision_among_ten_thousand_messages_is_found() -> None:
    rng = random.Random(5)
    words = sorted({word for line in CHATTER for word in line.split()})
    lines = [" ".join(rng.choices(words, k=rng.randint(5, 14))).capitalize() + "." for _ in range(10_000)]
    lines[5_001] = "We decided to archive the Lisbon cluster on 14 August."
    assert "Agent: We decided to archive the Lisbon cluster on 14 August." in summarise(conversation(*lines))


_HOSTILE = (
    *("x" * 1_000_000, "a. " * 300_000, "\n" * 1_000_000, "* " * 400_000, "<a>" * 300_000, "```" * 300_000),
    *("。" * 500_000, "「" * 500_000, "\ud800 lone surrogate and a sentence.", "\x00\x1b[31m red \x1b[0m" * 50_000),
    json.dumps({"a": [1] * 90_000}),
)


@every_row("text", _HOSTILE)
def test_hostile_input_stays_within_the_budget(text: str) -> None:
    messages = conversation(text, text)
    assert tokens.estimate(summarise(messages)) <= 200
    assert len(title(messages)) <= 400


@given(st.lists(st.text(max_size=200), max_size=6), st.integers(10, 200))
def test_any_text_has_a_deterministic_summary_within_the_budget(texts: list[str], budget: int) -> None:
    messages = conversation(*texts)
    summary = summarise(messages, budget=budget)
    assert tokens.estimate(summary) <= budget
    assert summarise(messages, budget=budget) == summary
    title(messages)


def test_sentences_are_split_where_they_end() -> None:
    text = (
        "Use a cache, e.g. Redis, for this. It costs 3.5 ms!\n"
        "1. First item of the list\n2. **Second** item\n\n"
        "A long line that was broken by an editor because it had become too wide\nto fit, goes on here."
    )
    assert sentences(text) == [
        "Use a cache, e.g. Redis, for this.",
        "It costs 3.5 ms!",
        "First item of the list",
        "Second item",
        "A long line that was broken by an editor because it had become too wide to fit, goes on here.",
    ]


@pytest.mark.parametrize("command", ["/workspace.brainstorm", "$workspace-brainstorm", " /plan"])
def test_the_name_of_a_command_is_not_in_a_summary(command: str) -> None:
    asked = [Message(role="user", content=f"{command} Which paths of the public API need versions?", id="1", seq=0)]
    assert summarise(asked) == "User: Which paths of the public API need versions? (not answered yet)"
    path = [Message(role="user", content="/usr/bin/python is not found here.", id="1", seq=0)]
    assert summarise(path) == "User: /usr/bin/python is not found here. (not answered yet)"
