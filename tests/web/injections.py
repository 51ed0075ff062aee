"""Texts that would become a script, a request or a broken page if one place forgot to escape them."""

from __future__ import annotations

from cortext.model.message import THINKING, TOOL_CALL, TOOL_RESULT, Message, Part

INJECTIONS = {
    "script element": "<script>alert(1)</script>",
    "event handler": '<img src=x onerror="alert(1)">',
    "svg": "<svg onload=alert(1)><a xlink:href='javascript:alert(1)'>x</a></svg>",
    "javascript link": "[x](javascript:alert(1)) [y](JaVaScRiPt:alert(1)) [z](java\tscript:alert(1))",
    "data link": "[x](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==)",
    "vbscript link": "[x](vbscript:msgbox)",
    "autolink": "<javascript:alert(1)> <https://evil.example/%22onmouseover=alert(1)>",
    "outside image": "![x](https://evil.example/pixel.png) ![y](//evil.example/p.png)",
    "attribute in a link": '[x](https://e.example/"onmouseover="alert(1) "t")',
    "link title": '[x](https://e.example "t\\" onmouseover=\\"alert(1)")',
    "iframe": "<iframe src=https://evil.example></iframe>",
    "style element": "<style>*{background:url(https://evil.example)}</style>",
    "base element": "<base href=https://evil.example/>",
    "meta refresh": '<meta http-equiv="refresh" content="0;url=https://evil.example">',
    "form": '<form action="https://evil.example"><input name=p></form>',
    "end of the page": "</div></article></main></body></html><h1>owned",
    "comment": "<!-- --><script>alert(1)</script><!-- -->",
    "fence language": '```"><script>alert(1)</script>\ncode\n```',
    "template": "{{ 7*7 }} {% raw %} ${7*7} <%= 7*7 %>",
    "control characters": "a\x00b\x1b[31mred\u202eevil\u2066\x9b31m",
    "entities": "&lt;script&gt;alert(1)&lt;/script&gt; &#60;img src=x onerror=alert(1)&#62;",
    "mark of a secret": "[masked <script>alert(1)</script> aa] [masked anthropic-key 3f2a9c] \ue000\uf8ff",
    "mutation": "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
}


def everywhere(text: str) -> list[Message]:
    """Return a conversation that has the text in every place that a page shows."""
    edit = {"file_path": text, "old_string": text, "new_string": f"{text}\n{text}"}
    calls = [
        Part(TOOL_CALL, id="a", name=text, input={text: text}),
        Part(TOOL_CALL, id="b", name="Bash", input={"command": text}),
        Part(TOOL_CALL, id="c", name="Edit", input=edit),
    ]
    results = [Part(TOOL_RESULT, call_id=each.id, name=text, output=text, is_error=each.id == "b") for each in calls]
    return [
        Message(role="user", content=text, seq=0, timestamp=text),
        Message(role=text, content=f"> {text}\n\n- {text}\n\n| a |\n|-|\n| {text} |", seq=1),
        Message(
            role="assistant", model=text, parts=[Part("text", text=text), Part(THINKING, text=text), *calls], seq=2
        ),
        Message(role="tool", parts=[*results], seq=7),
        Message(role="tool", parts=[Part(TOOL_RESULT, call_id="lost", output=text)], seq=4),
        Message(role="user", parts=[Part("image", ref=text, name=text, media_type=text)], seq=5),
    ]
