"""Masking many messages together finds the same secrets as masking each alone, in any part of a message."""

from __future__ import annotations

import pytest

from cortext.model.message import Message, Part
from cortext.services.text.message_masking import mask_message, mask_messages
from tests.safety.planted import harmless, planted


def _in_each_part(texts: list[str]) -> list[Message]:
    """Return the texts in turn as content, as a tool result, and nested and under a key in a tool call's input."""
    messages = []
    for index, text in enumerate(texts):
        if index % 4 == 0:
            messages.append(Message(role="user", content=text))
        elif index % 4 == 1:
            messages.append(Message(role="tool", parts=[Part(type="tool_result", call_id="c", output=text)]))
        elif index % 4 == 2:
            nested = {"command": ["echo", {"deep": text}]}
            messages.append(
                Message(role="assistant", parts=[Part(type="tool_call", id="c", name="Bash", input=nested)])
            )
        else:
            named = {"password": text.split()[-1], "api_key": text.split()[0]}
            messages.append(
                Message(role="assistant", parts=[Part(type="tool_call", id="c", name="Login", input=named)])
            )
    return messages


@pytest.mark.req("SAFE-02")
@pytest.mark.parametrize("seed", range(2))
def test_masking_together_is_the_same_as_each_alone(seed: int) -> None:
    texts = [case.text for case in planted(240, seed)]
    texts += [text for text, _ in harmless(240, seed)]
    messages = _in_each_part([text for pair in zip(texts[:240], texts[240:], strict=True) for text in pair])
    clean, findings = mask_messages(messages)
    alone = [mask_message(message) for message in messages]
    assert clean == [message for message, _ in alone]
    assert [finding.mark for finding in findings] == [finding.mark for _, found in alone for finding in found]
    assert len(findings) > 100


def test_messages_without_a_secret_are_the_same_objects() -> None:
    messages = [Message(role="user", content="Shall we?"), Message(role="assistant", content="Let us.")]
    clean, findings = mask_messages(messages)
    assert not findings and all(one is two for one, two in zip(clean, messages, strict=True))
