"""What is kept of what an agent says of a conversation: decisions of the user, and names that were said."""

from __future__ import annotations

import pytest
from bench.summaries import KINDS, Case, by_agent, by_extract, read_cases, wilson

from cortext.model.message import ASSISTANT, USER, Message
from cortext.model.session import Details
from cortext.services.text.summary_check import NOT_DECIDED, check_summary
from cortext.testing.table import every_row

pytestmark = pytest.mark.req("SELF-01")

GATEWAY = "GraphQL with one gateway"
PROPOSED = ("What should the services share?", "I suggest GraphQL with one gateway.")
AGREED = (*PROPOSED, "yes", "Noted.")


def talk(*texts: str) -> list[Message]:
    """Return a conversation of the user and the agent in turn."""
    return [Message(role=ASSISTANT if number % 2 else USER, content=text) for number, text in enumerate(texts)]


@every_row(
    ("said", "decided"),
    [
        (("Let's use GraphQL with one gateway.",), GATEWAY),
        (("Use GraphQL with one gateway",), GATEWAY),
        (("We'll go with the GraphQL gateway",), GATEWAY),
        (("can you add a GraphQL gateway?",), GATEWAY),
        (("could we change that to use a GraphQL gateway?",), GATEWAY),
        ((*PROPOSED, "yes"), GATEWAY),
        ((*PROPOSED, "GraphQL with a gateway, then."), GATEWAY),
        ((*AGREED, "No tests for now."), GATEWAY),
        (("No GraphQL gateway, please",), "No GraphQL gateway"),
        (("No GraphQL gateway, please",), "GraphQL was rejected"),
        (("No GraphQL, use REST with contracts",), "REST with contracts, not GraphQL"),
        (("No GraphQL, use REST with contracts",), "REST with contracts instead of GraphQL"),
        (("Wir nehmen GraphQL mit einem Gateway",), "GraphQL mit Gateway"),
        (("Change it: telemetry that is not set is disabled",), "Telemetry that is not set is disabled"),
    ],
)
def test_what_the_user_decided_is_kept(said: tuple[str, ...], decided: str) -> None:
    assert check_summary("", Details(decided=[decided]), talk(*said)).dropped == []


@every_row(
    ("said", "decided"),
    [
        (("No GraphQL gateway, please",), GATEWAY),
        ((*PROPOSED, "No GraphQL gateway, please"), GATEWAY),
        ((*PROPOSED, "Yes, but no GraphQL gateway"), GATEWAY),
        ((*AGREED, "On second thought, drop the GraphQL gateway."), GATEWAY),
        (("Don't use GraphQL with a gateway.",), GATEWAY),
        (("Use REST instead of GraphQL with one gateway.",), GATEWAY),
        (("We won't use GraphQL with one gateway",), GATEWAY),
        (("A GraphQL gateway is too much machinery",), GATEWAY),
        (("Bitte kein GraphQL-Gateway",), "GraphQL mit Gateway"),
        (("No GraphQL, use REST with contracts",), "GraphQL instead of REST"),
    ],
)
def test_what_the_user_refused_is_not_decided(said: tuple[str, ...], decided: str) -> None:
    (line,) = check_summary("", Details(decided=[decided]), talk(*said)).dropped
    assert NOT_DECIDED in line


@every_row(
    "said",
    [
        ("Let's talk about GraphQL with one gateway.", "It has one gateway."),
        ("/workspace.brainstorm GraphQL with one gateway",),
        ("We have a GraphQL gateway at the moment.",),
        ("Should we use GraphQL with one gateway?",),
        ("Can we use GraphQL with one gateway?",),
        ("can you explain GraphQL with one gateway?",),
        ("I'm thinking about GraphQL with one gateway, maybe.",),
    ],
)
def test_what_the_user_only_brought_up_is_not_decided(said: tuple[str, ...]) -> None:
    assert NOT_DECIDED in check_summary("", Details(decided=[GATEWAY]), talk(*said)).dropped[0]


@every_row(
    ("said", "summary", "is_kept"),
    [
        (("No GraphQL gateway, please",), "GraphQL with a gateway was chosen.", False),
        ((*PROPOSED, "Not yet"), "We agreed on GraphQL with one gateway.", False),
        (("Use GraphQL with a gateway", "Done."), "GraphQL with a gateway was chosen.", True),
        (("No GraphQL gateway", "Fine."), "GraphQL with a gateway was rejected.", True),
        (("REST please, and no GraphQL", "Fine."), "The user decided on REST and rejected GraphQL.", True),
        ((*PROPOSED, "No, that is too much machinery.", "Then REST."), "GraphQL was rejected.", True),
        ((*PROPOSED, "Hm."), "GraphQL with one gateway is proposed.", True),
    ],
)
def test_a_summary_that_states_a_decision_needs_one(said: tuple[str, ...], summary: str, is_kept: bool) -> None:
    assert bool(check_summary(summary, Details(), talk(*said)).summary) is is_kept


@every_row(
    "opening",
    [
        "Retries are open.",
        "Nothing is left.",
        "Write the contract.",
        "Everything works.",
        "Implemented as said.",
        "Testing goes on.",
        "Users want it.",
        "Merge it, then wait.",
        "Two parts remain.",
        "Currently open.",
        "Documentation is missing.",
        "Noch ist alles offen.",
    ],
)
def test_an_ordinary_word_may_open_a_sentence(opening: str) -> None:
    assert check_summary(opening, Details(), talk("How do we retry?", "Three times.")).dropped == []


@every_row(
    ("summary", "missing"),
    [
        ("Postgres holds the events.", "Postgres"),
        ("We retry. Kafka has the rest.", "Kafka"),
        ("We retry 4 times.", "4"),
        ("We retry after 250ms.", "250ms"),
        ("It is in 53466ba2.", "53466ba2"),
    ],
)
def test_a_name_or_number_that_was_not_said_is_missing(summary: str, missing: str) -> None:
    (line,) = check_summary(summary, Details(), talk("How do we retry?", "3 times, with 25ms between.")).dropped
    assert f"not in the conversation: {missing})" in line


@every_row("summary", ["It is in 53466ba2.", "We wait 250ms.", "It has 10,000 rows.", "It is 10000x faster."])
def test_hashes_and_numbers_with_a_unit_are_found_as_they_were_said(summary: str) -> None:
    said = talk("How is it?", "Commit 53466ba2 waits 250 ms, 10000 rows, 10,000x faster.")
    assert check_summary(summary, Details(), said).dropped == []


def test_the_marked_conversations_are_forty_with_a_summary_that_may_be_stored() -> None:
    cases = read_cases()
    assert len({case.id for case in cases}) == 40
    for case in cases:
        assert all(case.marks[kind] for kind in KINDS[:3]), case.id
        assert len(case.recorded["summary"]) <= 400, case.id


def test_the_benchmark_sees_what_a_summary_lacks_and_invents() -> None:
    marks = {"last ask": ["orders first"], "goal": ["services"], "decision": ["rest"], "open point": ["lint rules"]}
    said = talk("What should the services share?", "I suggest REST.", "Use REST. Are orders first?", "Yes, orders.")
    recorded = {"summary": "Orders are first.", "goal": "What services share", "decided": ["REST"], "open": ["Kafka"]}
    case = Case("one", marks, {**recorded, "next": ""})
    by = by_agent(case, said)
    assert (by.missing, by.unheld) == (["open point"], ['open (not in the conversation: Kafka): "Kafka"'])
    assert by_extract(case, said).missing == ["open point"]
    assert by_extract(case, said).unheld == []


@every_row(("right", "of", "low", "high"), [(36, 40, 0.77, 0.96), (40, 40, 0.91, 1.0), (0, 40, 0.0, 0.09)])
def test_the_interval_is_wilsons(right: int, of: int, low: float, high: float) -> None:
    assert tuple(round(one, 2) for one in wilson(right, of)) == (low, high)
