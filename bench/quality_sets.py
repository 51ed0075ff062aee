"""Sets of conversations with questions and the messages that answer them: reading, splitting, storing.

A set is a file: LoCoMo's format (a JSON list with `queries`), or JSON Lines, also compressed, of `{id, turns: [{id,
speaker, text, time?}], questions: [{question, gold}]}`. A question with `gold_sessions` asks for a session; all
sessions of such a file are one store. Each conversation belongs to the training or the test part, by a hash of its
first turn, so that every run splits alike, and so that two excerpts of one conversation are on the same side.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import random
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from unittest import mock

from cortext.model.message import Message
from cortext.model.session import Session
from cortext.services.projects.workspaces import remember_workspace
from cortext.store.files.workspace import WorkspaceStore

SEED = "2026"
TEST_SHARE = 0.3
TRAIN, TEST = "train", "test"

Place = tuple[str, int]  # session, and number of the message in it; -1 stands for the whole session


class Question(NamedTuple):
    text: str
    gold: frozenset[Place]
    part: str
    source: str  # the conversation it was asked about: questions about one conversation are not independent


class Conversation(NamedTuple):
    """What a question is asked over: the sessions of one store."""

    name: str
    sessions: dict[str, list[Message]]
    questions: list[Question]


class QuestionSet(NamedTuple):
    name: str
    conversations: list[Conversation]

    @property
    def is_trainable(self) -> bool:
        """Whether it may be trained on: a set in LoCoMo's format is only measured."""
        return any(question.part == TRAIN for one in self.conversations for question in one.questions)

    def sample(self, most: int) -> QuestionSet:
        """Return the set with at most so many questions of the test part, always the same ones."""
        asked = [question for one in self.conversations for question in one.questions if question.part == TEST]
        random.Random(SEED).shuffle(asked)
        kept = {id(question) for question in asked[:most]}
        conversations = [
            one._replace(questions=[question for question in one.questions if id(question) in kept])
            for one in self.conversations
        ]
        return QuestionSet(self.name, [one for one in conversations if one.questions])

    def pooled(self, part: str) -> QuestionSet:
        """Return one part of the set as a single store, in which every question is asked over all conversations."""
        questions = [question for one in self.conversations for question in one.questions if question.part == part]
        sources = {question.source for question in questions}
        sessions = {
            name: said for one in self.conversations if one.name in sources for name, said in one.sessions.items()
        }
        return QuestionSet(f"{self.name}, all in one", [Conversation("pool", sessions, questions)])


def part_of(text: str) -> str:
    """Return the part that a conversation belongs to, by a text that identifies it."""
    number = int.from_bytes(hashlib.sha256(f"{SEED} {text}".encode()).digest()[:4], "big")
    return TEST if number < TEST_SHARE * 2**32 else TRAIN


def read_set(path: str) -> QuestionSet:
    """Read a set; its name is that of the file."""
    name = os.path.basename(path).split(".")[0]
    with gzip.open(path, "rt", encoding="utf-8") if path.endswith(".gz") else open(path, encoding="utf-8") as file:
        if ".jsonl" not in path:
            return QuestionSet(name, [_locomo(one) for one in json.load(file)])
        rows: list[dict[str, Any]] = [json.loads(line) for line in file]
    if any("gold_sessions" in question for row in rows for question in row["questions"]):
        return QuestionSet(name, [_sessions(name, rows)])
    return QuestionSet(name, [_conversation(f"{name}-{number}", row) for number, row in enumerate(rows)])


def with_queries(questions: QuestionSet, path: str) -> QuestionSet:
    """Return the sessions of a set with other questions: a JSON list of [query, [beginnings of session ids]]."""
    (one,) = questions.conversations
    with open(path, encoding="utf-8") as file:
        asked: list[tuple[str, list[str]]] = json.load(file)
    found = []
    for text, names in asked:
        beginnings = tuple(_identifier(name) for name in names)
        gold = frozenset((session, -1) for session in one.sessions if session.startswith(beginnings))
        if not gold:
            raise SystemExit(f"no session for {text!r}")
        found.append(Question(text, gold, TEST, text))
    return QuestionSet(f"{os.path.basename(path)} over {questions.name}", [one._replace(questions=found)])


def _locomo(row: dict[str, Any]) -> Conversation:
    turns: dict[str, list[dict[str, str]]] = {}
    for turn in row["turns"]:
        turns.setdefault(_identifier(turn["session"]), []).append(turn)
    first = row["turns"][0]["speaker"]
    places = {turn["id"]: (name, number) for name, said in turns.items() for number, turn in enumerate(said)}
    questions = [
        Question(one["question"], frozenset(places[turn] for turn in one["gold"]), TEST, row["id"])
        for one in row["queries"]
    ]
    sessions = {name: [_message(turn, first) for turn in said] for name, said in turns.items()}
    return Conversation(row["id"], sessions, questions)


def _conversation(name: str, row: dict[str, Any]) -> Conversation:
    """Return a line of a file as a conversation; it is named by its number, because ids may repeat."""
    part = part_of(row["turns"][0]["text"])
    numbers = {turn["id"]: number for number, turn in enumerate(row["turns"])}
    questions = [
        Question(one["question"], frozenset((name, numbers[turn]) for turn in one["gold"]), part, name)
        for one in row["questions"]
        if one["gold"]
    ]
    first = row["turns"][0]["speaker"]
    return Conversation(name, {name: [_message(turn, first) for turn in row["turns"]]}, questions)


def _sessions(kind: str, rows: Sequence[dict[str, Any]]) -> Conversation:
    sessions = {_identifier(row["id"]): [_message(turn) for turn in row["turns"]] for row in rows}
    asked: dict[str, frozenset[Place]] = {}
    for row in rows:
        for one in row["questions"]:
            if one["question"] and one["gold_sessions"]:
                asked[one["question"]] = frozenset((_identifier(name), -1) for name in one["gold_sessions"])
    questions = []
    for text, gold in asked.items():
        source = f"{kind}-{min(gold)[0]}"
        questions.append(Question(text, gold, part_of(source), source))
    return Conversation(kind, sessions, questions)


def _message(turn: dict[str, str], first: str = "") -> Message:
    """Return a turn as a message; with `first`, the speakers are people, of whom the first one counts as the user."""
    role = turn["speaker"] if not first else "user" if turn["speaker"] == first else "assistant"
    text = f"{turn['speaker']}: {turn['text']}" if first else turn["text"]
    return Message(role=role, content=text, timestamp=turn.get("time") or _timestamp(turn.get("date", "")))


def _timestamp(date: str) -> str:
    """Return a date of LoCoMo ("1:56 pm on 8 May, 2023") as a timestamp."""
    return datetime.strptime(date, "%I:%M %p on %d %B, %Y").strftime("%Y-%m-%dT%H:%M:00Z") if date else ""


def _identifier(text: object) -> str:
    return re.sub(r"[^a-z0-9]+", "-", str(text).lower())


def store(base: str, conversations: Sequence[Conversation]) -> Iterator[tuple[str, Conversation]]:
    """Create a workspace per conversation and yield its folder."""
    for one in conversations:
        root = os.path.join(base, one.name)
        os.makedirs(os.path.join(root, ".workspace"))
        remember_workspace(root)
        made = WorkspaceStore(root)
        with mock.patch("os.fsync"):
            for session_id, messages in one.sessions.items():
                made.create(Session(id=session_id))
                made.append(session_id, *messages)
        yield root, one
