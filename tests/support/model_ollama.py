"""Ollama's chat protocol: one JSON document per line, tool calls without ids."""

from __future__ import annotations

from tests.support.model_protocols import Event, Protocol
from tests.support.model_reply import Json, Reply, Turn, pieces, plain_text

_COUNTS = {"prompt_eval_count": 10, "eval_count": 5, "total_duration": 1, "load_duration": 1}


def _base(body: Json) -> Json:
    return {"model": body.get("model", "test-model"), "created_at": "2026-01-01T00:00:00Z"}


def _calls(reply: Reply) -> list[Json]:
    return [{"function": {"name": call.name, "arguments": dict(call.arguments)}} for call in reply.tool_calls]


def _end(reply: Reply) -> Json:
    # The protocol cannot report a filter: such an answer just stops.
    return {"done": True, "done_reason": "length" if reply.stop == "length" else "stop", **_COUNTS}


def _whole(body: Json, reply: Reply) -> Json:
    message: Json = {"role": "assistant", "content": reply.text or ""}
    if reply.thinking is not None:
        message["thinking"] = reply.thinking
    if reply.tool_calls:
        message["tool_calls"] = _calls(reply)
    return {**_base(body), "message": message, **_end(reply)}


def _stream(body: Json, reply: Reply) -> list[Event]:
    said: list[Json] = [{"content": "", "thinking": piece} for piece in pieces(reply.thinking or "") if piece]
    said += [{"content": piece} for piece in pieces(reply.text or "") if piece]
    said += [{"content": "", "tool_calls": [call]} for call in _calls(reply)]
    events: list[Event] = [
        (None, {**_base(body), "message": {"role": "assistant", **message}, "done": False}) for message in said
    ]
    return [*events, (None, {**_base(body), "message": {"role": "assistant", "content": ""}, **_end(reply)})]


def _turns(body: Json) -> list[Turn]:
    turns: list[Turn] = []
    for message in body.get("messages") or []:
        role, text = str(message.get("role")), plain_text(message.get("content"))
        if role == "tool":
            turns.append(Turn(role, "tool_result", text, name=message.get("tool_name", "")))
            continue
        if text:
            turns.append(Turn(role, "text", text))
        for call in message.get("tool_calls") or []:
            function = call["function"]
            turns.append(Turn(role, "tool_call", name=function["name"], arguments=function["arguments"]))
    return turns


OLLAMA = Protocol(
    "ollama", _whole, _stream, _turns, lambda body: None, lambda status, message: {"error": message}, framing="lines"
)
