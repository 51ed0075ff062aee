"""Four wire protocols of the model server: how each encodes a reply and how its requests are parsed."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.support.model_reply import Json, Reply, Turn, pieces, plain_text

# One event of a stream: its name (or None) and its data; a string is sent unchanged.
Event = tuple[str | None, Json | str]

_ids = itertools.count(1)


def _new_id(prefix: str) -> str:
    return f"{prefix}{next(_ids):024x}"


@dataclass(frozen=True)
class Protocol:
    """How one protocol encodes a reply (whole or streamed), parses a conversation, and recognises an errand."""

    name: str
    whole: Callable[[Json, Reply], Json]
    stream: Callable[[Json, Reply], list[Event]]
    turns: Callable[[Json], list[Turn]]
    # A program's own errands (titles, routing) get this text and do not consume a scripted reply.
    errand: Callable[[Json], str | None]
    error: Callable[[int, str], Json]
    # How a stream is framed: "events" (server-sent) or "lines" (one JSON document per line).
    framing: str = "events"


# --- Anthropic Messages -----------------------------------------------------------------------------------

_ANTHROPIC_USAGE = {
    "input_tokens": 10,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
    "output_tokens": 5,
}


def _anthropic_blocks(reply: Reply) -> list[Json]:
    blocks: list[Json] = []
    if reply.thinking is not None:
        blocks.append({"type": "thinking", "thinking": reply.thinking, "signature": "c2lnbmF0dXJl"})
    if reply.text is not None:
        blocks.append({"type": "text", "text": reply.text})
    for call in reply.tool_calls:
        blocks.append({"type": "tool_use", "id": _new_id("toolu_"), "name": call.name, "input": dict(call.arguments)})
    return blocks


def _anthropic_whole(body: Json, reply: Reply) -> Json:
    return {
        "id": _new_id("msg_"),
        "type": "message",
        "role": "assistant",
        "model": body.get("model", "test-model"),
        "content": _anthropic_blocks(reply),
        "stop_reason": _stop(reply, "tool_use", "end_turn", length="max_tokens", filtered="refusal"),
        "stop_sequence": None,
        "usage": _ANTHROPIC_USAGE,
    }


def _anthropic_stream(body: Json, reply: Reply) -> list[Event]:
    whole = _anthropic_whole(body, reply)
    data: list[Json] = [
        {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}},
    ]
    for index, block in enumerate(whole["content"]):
        start, deltas = _anthropic_deltas(block)
        data.append({"type": "content_block_start", "index": index, "content_block": start})
        data += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        data.append({"type": "content_block_stop", "index": index})
    stop = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    data.append({"type": "message_delta", "delta": stop, "usage": {"output_tokens": 5}})
    data.append({"type": "message_stop"})
    return [(str(item["type"]), item) for item in data]


def _anthropic_deltas(block: Json) -> tuple[Json, list[Json]]:
    """Return how a content block starts in a stream, and the deltas that fill it."""
    if block["type"] == "tool_use":
        return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
    if block["type"] == "thinking":
        return {"type": "thinking", "thinking": "", "signature": ""}, [
            *({"type": "thinking_delta", "thinking": piece} for piece in pieces(block["thinking"])),
            {"type": "signature_delta", "signature": block["signature"]},
        ]
    return {"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces(block["text"])]


def _anthropic_turns(body: Json) -> list[Turn]:
    turns: list[Turn] = []
    for message in body.get("messages") or []:
        role, content = str(message.get("role")), message.get("content")
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content or []:
            kind = block.get("type")
            if kind == "text":
                turns.append(Turn(role, "text", block["text"]))
            elif kind == "thinking":
                turns.append(Turn(role, "thinking", block["thinking"]))
            elif kind == "tool_use":
                turns.append(Turn(role, "tool_call", name=block["name"], arguments=block["input"], call_id=block["id"]))
            elif kind == "tool_result":
                text = plain_text(block.get("content"))
                turns.append(Turn(role, "tool_result", text, call_id=block["tool_use_id"]))
    return turns


def _anthropic_errand(body: Json) -> str | None:
    if title := _title((body.get("output_config") or {}).get("format")):
        return title
    # The key check at start-up asks for a single token.
    return "ok" if body.get("max_tokens") == 1 else None


# --- OpenAI chat completions ------------------------------------------------------------------------------


def _chat_usage(reply: Reply) -> Json:
    return {"prompt_tokens": reply.prompt_tokens, "completion_tokens": 5, "total_tokens": reply.prompt_tokens + 5}


def _chat_calls(reply: Reply) -> list[Json]:
    return [
        {
            "index": index,
            "id": _new_id("call_"),
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
        }
        for index, call in enumerate(reply.tool_calls)
    ]


def _chat_base(body: Json, kind: str) -> Json:
    model = body.get("model", "test-model")
    return {"id": _new_id("chatcmpl-"), "object": kind, "created": 1_700_000_000, "model": model}


def _chat_whole(body: Json, reply: Reply) -> Json:
    message: Json = {"role": "assistant", "content": reply.text}
    if reply.thinking is not None:
        message["reasoning_content"] = reply.thinking
    if reply.tool_calls:
        message["tool_calls"] = _chat_calls(reply)
    finish = _stop(reply, "tool_calls", "stop", length="length", filtered="content_filter")
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return {**_chat_base(body, "chat.completion"), "choices": [choice], "usage": _chat_usage(reply)}


def _chat_stream(body: Json, reply: Reply) -> list[Event]:
    base = _chat_base(body, "chat.completion.chunk")
    deltas: list[Json] = [{"role": "assistant"}]
    deltas += [{"reasoning_content": piece} for piece in pieces(reply.thinking or "") if piece]
    deltas += [{"content": piece} for piece in pieces(reply.text or "") if piece]
    deltas += [{"tool_calls": [call]} for call in _chat_calls(reply)]
    events: list[Event] = [
        (None, {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}) for delta in deltas
    ]
    finish = _stop(reply, "tool_calls", "stop", length="length", filtered="content_filter")
    last = {"index": 0, "delta": {}, "finish_reason": finish}
    return [*events, (None, {**base, "choices": [last], "usage": _chat_usage(reply)}), (None, "[DONE]")]


def _chat_turns(body: Json) -> list[Turn]:
    turns: list[Turn] = []
    for message in body.get("messages") or []:
        role, text = str(message.get("role")), plain_text(message.get("content"))
        if role == "tool":
            turns.append(Turn(role, "tool_result", text, call_id=message["tool_call_id"]))
            continue
        if message.get("reasoning_content"):
            turns.append(Turn(role, "thinking", message["reasoning_content"]))
        if text:
            turns.append(Turn(role, "text", text))
        for call in message.get("tool_calls") or []:
            function = call["function"]
            arguments = json.loads(function["arguments"] or "{}")
            turns.append(Turn(role, "tool_call", name=function["name"], arguments=arguments, call_id=call["id"]))
    return turns


# How the two prompts for a title of Mistral Vibe begin.
VIBE_TITLES = ("You write short, descriptive titles", "You name coding-agent sessions")


def _chat_errand(body: Json) -> str | None:
    first = plain_text((body.get("messages") or [{}])[0].get("content"))
    titles = ("You are a title generator", "Generate concise conversation titles", *VIBE_TITLES)
    return "A test conversation" if first.startswith(titles) else None


# --- OpenAI responses -------------------------------------------------------------------------------------

_RESPONSES_USAGE = {
    "input_tokens": 10,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 15,
}


def _responses_items(reply: Reply) -> list[Json]:
    items: list[Json] = []
    if reply.thinking is not None:
        summary = [{"type": "summary_text", "text": reply.thinking}]
        items.append({"type": "reasoning", "id": _new_id("rs_"), "summary": summary, "encrypted_content": "c2VhbGVk"})
    if reply.text is not None:
        content = [{"type": "output_text", "text": reply.text, "annotations": []}]
        message = {"type": "message", "id": _new_id("msg_"), "role": "assistant", "status": "completed"}
        items.append({**message, "content": content})
    for call in reply.tool_calls:
        item = {"type": "function_call", "id": _new_id("fc_"), "call_id": _new_id("call_"), "name": call.name}
        items.append({**item, "arguments": json.dumps(call.arguments), "status": "completed"})
    return items


def _responses_whole(body: Json, reply: Reply) -> Json:
    return {
        "id": _new_id("resp_"),
        "object": "response",
        "created_at": 1_700_000_000,
        "status": "completed",
        "model": body.get("model", "test-model"),
        "output": _responses_items(reply),
        "usage": _RESPONSES_USAGE,
    }


def _responses_stream(body: Json, reply: Reply) -> list[Event]:
    whole = _responses_whole(body, reply)
    started = {**whole, "status": "in_progress", "output": [], "usage": None}
    data: list[Json] = [{"type": "response.created", "response": started}]
    for index, item in enumerate(whole["output"]):
        position = {"item_id": item["id"], "output_index": index}
        opening = {**item, "status": "in_progress"}
        deltas: list[Json] = []
        if item["type"] == "message":
            opening["content"] = []
            for piece in pieces(item["content"][0]["text"]):
                deltas.append({"type": "response.output_text.delta", **position, "content_index": 0, "delta": piece})
        elif item["type"] == "reasoning":
            opening["summary"] = []
            for piece in pieces(item["summary"][0]["text"]):
                kind = "response.reasoning_summary_text.delta"
                deltas.append({"type": kind, **position, "summary_index": 0, "delta": piece})
        else:
            opening["arguments"] = ""
        data.append({"type": "response.output_item.added", "output_index": index, "item": opening})
        data += deltas
        data.append({"type": "response.output_item.done", "output_index": index, "item": item})
    data.append({"type": "response.completed", "response": whole})
    return [(str(item["type"]), item) for item in data]


def _responses_turns(body: Json) -> list[Turn]:
    given = body.get("input")
    turns: list[Turn] = []
    for item in [{"role": "user", "content": given}] if isinstance(given, str) else given or []:
        kind = item.get("type", "message")
        if kind == "message":
            turns.append(Turn(str(item.get("role")), "text", plain_text(item.get("content"))))
        elif kind == "reasoning":
            turns.append(Turn("assistant", "thinking", plain_text(item.get("summary"))))
        elif kind in ("function_call", "custom_tool_call"):
            # A custom tool takes free text instead of JSON arguments.
            arguments = json.loads(item["arguments"] or "{}") if kind == "function_call" else item["input"]
            turns.append(
                Turn("assistant", "tool_call", name=item["name"], arguments=arguments, call_id=item["call_id"])
            )
        elif kind in ("function_call_output", "custom_tool_call_output"):
            turns.append(Turn("tool", "tool_result", plain_text(item.get("output")), call_id=item["call_id"]))
    return turns


def _responses_errand(body: Json) -> str | None:
    return _title((body.get("text") or {}).get("format"))


# --- Gemini generateContent -------------------------------------------------------------------------------


def _gemini_chunk(parts: list[Json], *, last: bool, reply: Reply) -> Json:
    candidate: Json = {"content": {"role": "model", "parts": parts}, "index": 0}
    if last:
        candidate["finishReason"] = _stop(reply, "STOP", "STOP", length="MAX_TOKENS", filtered="SAFETY")
    count = reply.prompt_tokens
    usage = {"promptTokenCount": count, "candidatesTokenCount": 5, "totalTokenCount": count + 5}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "test-model"}


def _gemini_parts(reply: Reply) -> list[Json]:
    parts: list[Json] = []
    if reply.thinking is not None:
        parts.append({"text": reply.thinking, "thought": True})
    if reply.text is not None:
        parts += [{"text": piece} for piece in pieces(reply.text)]
    for call in reply.tool_calls:
        parts.append({"functionCall": {"name": call.name, "args": dict(call.arguments)}})
    return parts


def _gemini_whole(body: Json, reply: Reply) -> Json:
    return _gemini_chunk(_gemini_parts(reply), last=True, reply=reply)


def _gemini_stream(body: Json, reply: Reply) -> list[Event]:
    parts = _gemini_parts(reply)
    return [
        (None, _gemini_chunk([part], last=number == len(parts), reply=reply))
        for number, part in enumerate(parts, start=1)
    ]


def _gemini_turns(body: Json) -> list[Turn]:
    turns: list[Turn] = []
    for content in body.get("contents") or []:
        role = str(content.get("role", "user"))
        for part in content.get("parts") or []:
            if "functionCall" in part:
                call = part["functionCall"]
                turns.append(
                    Turn(
                        role,
                        "tool_call",
                        name=call["name"],
                        arguments=call.get("args"),
                        call_id=call.get("id", ""),
                    )
                )
            elif "functionResponse" in part:
                answer = part["functionResponse"]
                text = json.dumps(answer.get("response"), ensure_ascii=False)
                turns.append(Turn(role, "tool_result", text, name=answer["name"], call_id=answer.get("id", "")))
            elif isinstance(part.get("text"), str):
                turns.append(Turn(role, "thinking" if part.get("thought") else "text", part["text"]))
    return turns


def _gemini_errand(body: Json) -> str | None:
    settings = body.get("generationConfig") or {}
    schema = settings.get("responseJsonSchema") or settings.get("responseSchema")
    return json.dumps(_from_schema(schema)) if schema else None


# ----------------------------------------------------------------------------------------------------------


def _stop(reply: Reply, tools: str, end: str, *, length: str, filtered: str) -> str:
    """Return the protocol's value for why the answer ends."""
    if reply.stop:
        return {"length": length, "filtered": filtered}[reply.stop]
    return tools if reply.tool_calls else end


def _title(output: Json | None) -> str | None:
    """Return the answer to a request for a title as JSON, or None for any other schema."""
    wanted = ((output or {}).get("schema") or {}).get("properties") or {}
    return json.dumps({"title": "A test conversation"}) if list(wanted) == ["title"] else None


def _from_schema(schema: Json) -> Any:
    """Return a minimal value that a JSON schema accepts, for errands with structured output."""
    if schema.get("enum"):
        return schema["enum"][0]
    kind = schema.get("type")
    # Gemini spells the types in capitals, and a type may be a list of alternatives.
    kind = str(kind[0] if isinstance(kind, list) else kind).lower()
    if kind == "object":
        return {name: _from_schema(inner) for name, inner in (schema.get("properties") or {}).items()}
    if kind == "array":
        return []
    if kind in ("number", "integer"):
        return schema.get("minimum", 1)
    return False if kind == "boolean" else "test"


def _openai_error(status: int, message: str) -> Json:
    return {"error": {"message": message, "type": "server_error", "code": status}}


def _anthropic_error(status: int, message: str) -> Json:
    kind = {
        400: "invalid_request_error",
        401: "authentication_error",
        429: "rate_limit_error",
        529: "overloaded_error",
    }
    return {"type": "error", "error": {"type": kind.get(status, "api_error"), "message": message}}


def _gemini_error(status: int, message: str) -> Json:
    kind = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE"}
    return {"error": {"code": status, "message": message, "status": kind.get(status, "INTERNAL")}}


ANTHROPIC = Protocol(
    "anthropic", _anthropic_whole, _anthropic_stream, _anthropic_turns, _anthropic_errand, _anthropic_error
)
CHAT = Protocol("chat", _chat_whole, _chat_stream, _chat_turns, _chat_errand, _openai_error)
RESPONSES = Protocol(
    "responses", _responses_whole, _responses_stream, _responses_turns, _responses_errand, _openai_error
)
GEMINI = Protocol("gemini", _gemini_whole, _gemini_stream, _gemini_turns, _gemini_errand, _gemini_error)
