"""What is still open: the steps that the model had planned and not done, and the question that it asked last."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from cortext.model.message import USER, Message
from cortext.services.digest.asks import is_answer
from cortext.services.digest.calls import Call
from cortext.services.text.clip import clip
from cortext.services.text.sentences import sentences

LONGEST = 200
_STEP_KEYS = ("content", "step", "title", "subject", "description", "text")
_DONE = frozenset(("completed", "complete", "done", "cancelled", "canceled", "deleted", "skipped"))
_NUMBER = re.compile(r"#?(\d+)")
_QUESTION = ("?", "？")


def steps(calls: Sequence[Call]) -> list[str]:
    """Return the steps of the model's newest list that are not done, in its order.

    A tool either writes the whole list each time, or creates and updates one step per call.
    """
    listed: dict[str, tuple[str, str]] = {}  # the text and the status of each step, by its number
    for call in calls:
        fields = call.part.input
        if call.failed or not isinstance(fields, dict):
            continue
        whole = next((found for value in fields.values() if (found := _list(value))), None)
        if whole is not None:
            listed = {str(number): step for number, step in enumerate(whole, 1)}
        elif isinstance(fields.get("subject"), str):
            number = _NUMBER.search(call.result.output if call.result is not None else "")
            listed[number[1] if number else str(len(listed) + 1)] = (fields["subject"], "pending")
        elif isinstance(fields.get("taskId"), str) and fields["taskId"] in listed:
            text, status = listed[fields["taskId"]]
            listed[fields["taskId"]] = (text, str(fields.get("status") or status))
    return [_shown(text, status) for text, status in listed.values() if status.lower() not in _DONE]


def _list(value: Any) -> list[tuple[str, str]] | None:
    """Return the steps in a field of a call; None if it is no list of steps with a status."""
    if not isinstance(value, list) or not value:
        return None
    found = []
    for step in value:
        text = next((step[key] for key in _STEP_KEYS if isinstance(step.get(key), str)), "") if _is_step(step) else ""
        if not text:
            return None
        found.append((text, step["status"]))
    return found


def _is_step(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("status"), str)


def _shown(text: str, status: str) -> str:
    return f"{clip(text, LONGEST)}{' (in progress)' if 'progress' in status.lower() else ''}"


def question(messages: Sequence[Message]) -> str:
    """Return the question at the end of the model's last answer, if the user has not replied to it."""
    for message in reversed(messages):
        if message.role == USER:
            return ""
        if is_answer(message):
            asked = [sentence for sentence in sentences(message.content)[-3:] if sentence.endswith(_QUESTION)]
            return clip(asked[-1], LONGEST) if asked else ""
    return ""
