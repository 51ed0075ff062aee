"""A conversation with every kind of event that matters, as Copilot 1.0.102 writes it."""

from __future__ import annotations

import json
from typing import Any

KEY = "99ac99d8-8c70-4156-9ed8-5377a123f064"
PROJECT = "/work/pond"


def event(number: int, kind: str, data: dict[str, Any], **more: Any) -> bytes:
    """Return one line of the file."""
    parent = f"00000000-0000-4000-8000-{number - 1:012d}" if number else None
    line = {
        "type": kind,
        "data": data,
        "id": f"00000000-0000-4000-8000-{number:012d}",
        "timestamp": f"2026-11-17T12:42:{number:02d}.000Z",
        "parentId": parent,
        **more,
    }
    return json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode()


def request(call: str, name: str, **arguments: str) -> dict[str, Any]:
    """Return a tool call of an answer."""
    return {"toolCallId": call, "name": name, "arguments": arguments, "type": "function", "toolTitle": "Running"}


EVENTS: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...] = (
    (
        "session.start",
        {
            "sessionId": KEY,
            "version": 1,
            "producer": "copilot-agent",
            "copilotVersion": "1.0.102",
            "startTime": "2026-11-17T12:42:00.000Z",
            "selectedModel": "first-model",
            "contextTier": None,
            "context": {"cwd": PROJECT},
        },
        {},
    ),
    ("session.model_change", {"newModel": "test-model", "previousModel": "first-model"}, {}),
    ("hook.start", {"hookInvocationId": "h", "hookType": "userPromptSubmitted", "input": {"prompt": "/workspace"}}, {}),
    ("hook.end", {"hookInvocationId": "h", "hookType": "userPromptSubmitted", "success": True}, {}),
    ("skill.invoked", {"name": "workspace.plan", "path": "/work/pond/SKILL.md", "content": "Topic: $ARGUMENTS"}, {}),
    (
        "user.message",
        {
            "content": "/workspace.plan Ünïcode: 答え",
            "transformedContent": "<current_datetime>2026-11-17</current_datetime>\n\nTopic: Ünïcode: 答え",
            "attachments": [{"type": "file", "path": "/work/pond/heron.png", "mimeType": "image/png"}],
            "messageId": "m1",
        },
        {},
    ),
    ("system.message", {"role": "system", "content": "You are the GitHub Copilot CLI."}, {}),
    ("assistant.turn_start", {"turnId": "0"}, {}),
    ("session.usage_record", {"usage": {"inputTokens": 10, "outputTokens": 5, "cacheReadTokens": 2}}, {}),
    (
        "assistant.message",
        {
            "messageId": "m2",
            "model": "test-model",
            "content": "Two at once.",
            "reasoningText": "hm",
            "toolRequests": [request("c1", "bash", command="cat a"), request("c2", "view", path="/nope")],
        },
        {},
    ),
    ("permission.requested", {"requestId": "p", "permissionRequest": {"kind": "shell"}}, {}),
    ("permission.completed", {"requestId": "p", "result": {"kind": "approved"}}, {}),
    ("tool.execution_start", {"toolCallId": "c1", "toolName": "bash", "arguments": {"command": "cat a"}}, {}),
    ("tool.execution_start", {"toolCallId": "c2", "toolName": "view", "arguments": {"path": "/nope"}}, {}),
    (
        "tool.execution_complete",
        {"toolCallId": "c1", "success": True, "result": {"content": "the heron\n<shellId: 0 completed>"}},
        {},
    ),
    (
        "tool.execution_complete",
        {"toolCallId": "c2", "success": False, "error": {"message": "Path does not exist", "code": "failure"}},
        {},
    ),
    ("assistant.turn_end", {"turnId": "0"}, {}),
    ("user.message", {"content": "Look around.", "source": "agent-7"}, {"agentId": "a7"}),
    ("assistant.message", {"messageId": "s1", "content": "I looked.", "parentToolCallId": "c1"}, {"agentId": "a7"}),
    ("session.usage_record", {"usage": {"inputTokens": 20, "outputTokens": 7}}, {}),
    ("assistant.message", {"messageId": "m3", "model": "test-model", "content": "Done.", "toolRequests": []}, {}),
    ("session.shutdown", {"accountingSnapshot": {"totalUserRequests": 1}}, {}),
    ("session.resume", {"resumeTime": "2026-11-17T12:42:20.000Z", "context": {"cwd": PROJECT}}, {}),
    ("model.messages_snapshot", {"kind": "messages_snapshot", "messages": [{"role": "user", "content": "x"}]}, {}),
    ("user.message", {"content": "Continue.", "isAutopilotContinuation": True}, {}),
    ("user.message", {"content": "And storks?"}, {}),
)
LINES = tuple(event(number, kind, data, **more) for number, (kind, data, more) in enumerate(EVENTS))
MESSAGES = (
    ("user", "/workspace.plan Ünïcode: 答え"),
    ("assistant", "Two at once."),
    ("tool", "the heron\n<shellId: 0 completed>"),
    ("tool", "Path does not exist"),
    ("assistant", "I looked."),
    ("assistant", "Done."),
    ("user", "And storks?"),
)
