"""What each provider requires of a request, according to its documentation and error messages.

The loopback model server accepts more than the real providers; these rules do not.
"""

from __future__ import annotations

import json
import re
from typing import Any

from tests.support.model_reply import Json

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_MISTRAL_ID = re.compile(r"[A-Za-z0-9]{9}")  # the strictest of the compatible endpoints


def broken_rules(provider: str, body: Json) -> list[str]:
    """Return everything in this request that the provider would refuse."""
    return {"openai": _openai, "anthropic": _anthropic, "gemini": _gemini, "ollama": _ollama}[provider](body)


def _openai(body: Json) -> list[str]:
    broken = []
    waiting: list[str] = []
    messages = body["messages"]
    for index, message in enumerate(messages):
        role = message["role"]
        if role == "system" and index:
            broken.append("a system message that is not the first")
        if role == "tool":
            if message["tool_call_id"] not in waiting:
                broken.append(f"a result without its call: {message}")
            else:
                waiting.remove(message["tool_call_id"])
            broken += _no_text(message["content"])
            continue
        if waiting:
            broken.append(f"calls without results: {waiting}")
            waiting = []
        if role == "user":
            broken += _no_text(message["content"])
        if role == "assistant":
            calls = message.get("tool_calls")
            if calls is None and not message.get("content"):
                broken.append("an empty assistant message")
            for call in calls or ():
                broken += _name(call["function"]["name"])
                if not _MISTRAL_ID.fullmatch(call["id"]):
                    broken.append(f"an id that Mistral refuses: {call['id']}")
                if not isinstance(json.loads(call["function"]["arguments"]), dict):
                    broken.append("arguments that are not an object")
                waiting.append(call["id"])
    if waiting:
        broken.append(f"calls without results: {waiting}")
    if messages[-1]["role"] not in ("user", "tool"):
        broken.append("the last message is not the user's")
    return broken


def _anthropic(body: Json) -> list[str]:
    broken = [] if body.get("max_tokens") else ["no max_tokens"]
    waiting: set[str] = set()
    called = False
    roles = [message["role"] for message in body["messages"]]
    broken += _turns(roles, "assistant")
    for message in body["messages"]:
        blocks = message["content"]
        if not blocks:
            broken.append("a message without content")
        kinds = [block["type"] for block in blocks]
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if set(results) != waiting or len(results) != len(waiting):
            broken.append(f"results {results} for calls {waiting}")
        if "tool_result" in kinds[len(results) :]:
            broken.append("results that are not first")
        waiting = set()
        for block in blocks:
            if block["type"] == "text":
                broken += _no_text(block["text"])
            if block["type"] == "tool_use":
                called = True
                broken += _name(block["name"])
                broken += [] if re.fullmatch(r"[A-Za-z0-9_-]+", block["id"]) else [f"id {block['id']}"]
                broken += [] if isinstance(block["input"], dict) else ["an input that is not an object"]
                waiting.add(block["id"])
    if called and not body.get("tools"):
        broken.append("calls without declared tools")
    return broken + ([f"calls without results: {waiting}"] if waiting else [])


def _gemini(body: Json) -> list[str]:
    broken = _turns([content["role"] for content in body["contents"]], "model")
    waiting: list[str] = []
    for content in body["contents"]:
        if not content["parts"]:
            broken.append("a turn without parts")
        answers = [part["functionResponse"]["name"] for part in content["parts"] if "functionResponse" in part]
        if answers != waiting:
            broken.append(f"answers {answers} for calls {waiting}")
        waiting = []
        for part in content["parts"]:
            if "text" in part:
                broken += _no_text(part["text"])
            if "functionCall" in part:
                broken += _name(part["functionCall"]["name"])
                waiting.append(part["functionCall"]["name"])
    return broken + ([f"calls without answers: {waiting}"] if waiting else [])


def _ollama(body: Json) -> list[str]:
    broken = []
    waiting: list[str] = []
    for message in body["messages"]:
        if message["role"] == "tool":
            broken += [] if waiting and waiting.pop(0) == message["tool_name"] else ["a result without its call"]
            continue
        broken += [f"calls without results: {waiting}"] if waiting else []
        calls = message.get("tool_calls") or []
        waiting = [call["function"]["name"] for call in calls]
        broken += [problem for name in waiting for problem in _name(name)]
        if not calls and not message.get("images"):
            broken += _no_text(message["content"])
    return broken + ([f"calls without results: {waiting}"] if waiting else [])


def _turns(roles: list[str], assistant: str) -> list[str]:
    """Check that user and assistant alternate, and that the user is first and last."""
    wanted = ["user" if index % 2 == 0 else assistant for index in range(len(roles))]
    if roles == wanted and len(roles) % 2 == 1:
        return []
    return [f"the roles are {roles}"]


def _no_text(content: Any) -> list[str]:
    if isinstance(content, list):
        return [] if content else ["no content"]
    return [] if isinstance(content, str) and content.strip() else [f"an empty text: {content!r}"]


def _name(name: str) -> list[str]:
    return [] if _NAME.fullmatch(name) else [f"an invalid name: {name!r}"]
