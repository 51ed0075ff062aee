"""Markdown for Telegram, and long texts as several messages: nothing lost, nothing broken, nothing injected."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortext.agents.telegram.formatting import (
    BOLD,
    CODE,
    ENTITIES,
    ITALIC,
    LIMIT,
    LINK,
    PRE,
    QUOTE,
    SPOILER,
    STRIKE,
    Styled,
    render,
    split,
    units,
)
from cortext.testing.table import every_row


def _parts(styled: Styled, kind: str) -> list[str]:
    return [styled.text[entity.start : entity.end] for entity in styled.entities if entity.kind == kind]


def test_common_markdown_becomes_entities() -> None:
    styled = render(
        "# Plan for *today*\n\nThis is **bold `code` here**, _so_ ~~not~~ that, snake_case_name and 2*3*4.\n"
        "- one\n* two\n\n```python\ndef f():\n    return '**'\n```\n> said she\n> twice\n\n"
        "[docs](https://example.org/a_b) \\*literal\\*"
    )
    assert styled.text.startswith("Plan for today\n\nThis is bold code here, so not that, snake_case_name and 2*3*4.")
    assert "• one\n• two" in styled.text
    assert _parts(styled, BOLD) == ["Plan for today", "bold", "here"]
    assert _parts(styled, ITALIC) == ["today", "so"]
    assert _parts(styled, STRIKE) == ["not"]
    assert _parts(styled, CODE) == ["code"]
    assert _parts(styled, PRE) == ["def f():\n    return '**'"]
    assert _parts(styled, QUOTE) == ["said she\ntwice"]
    assert [(entity.url, _parts(styled, LINK)) for entity in styled.entities if entity.kind == LINK] == [
        ("https://example.org/a_b", ["docs"])
    ]
    assert next(entity.language for entity in styled.entities if entity.kind == PRE) == "python"
    assert styled.text.endswith("*literal*")


@every_row(
    "written",
    [
        "**open and never closed",
        "a * b * c",
        "`no end",
        "[text](javascript:alert(1))",
        "[text](file:///etc/passwd)",
        "<b>not html</b> & <script>",
        "__init__.py, snake_case, __name__ and __all__",
        "2*3*4, 2**10 and a*b*c",
        "https://example.org/a_b_c/_x_?q=*",
        "![image](data:image/png;base64,x)",
        "1 < 2 and <em@il>",
        "[a]b](c",
        "]( ][ )( **",
    ],
)
def test_text_that_is_not_markdown_is_unchanged(written: str) -> None:
    styled = render(written)
    assert styled.text == written.replace("<em@il>", "em@il")
    if "em@il" in written:
        return  # an address in angles is a link
    assert not [entity for entity in styled.entities if entity.kind == LINK]


def test_a_table_is_shown_in_columns() -> None:
    written = "before\n| Name | Count |\n|:---|---:|\n| **tea** | 2 |\n| 咖啡 `x|y` | 1,000 |\n\nafter"
    styled = render(written.replace("x|y", "x\\|y"))
    assert styled.text.startswith("before\n") and styled.text.endswith("\nafter")
    assert _parts(styled, PRE) == [
        "\n".join(
            [
                "Name     | Count",
                "---------+------",
                "tea      |     2",
                "咖啡 x|y | 1,000",
            ]
        )
    ]
    assert _parts(render("a | b\n--|--\n1 | 2"), PRE) == ["a | b\n--+--\n1 | 2"], "the outer bars are optional"
    assert "lost" in render("a | b\n--|--\n1 | 2 | not lost").text, "a cell beyond the header is kept"
    assert _parts(render("| a | b |\n| 1 | 2 |"), PRE) == ["| a | b |\n| 1 | 2 |"], "an incomplete table is code too"


def test_check_boxes_images_and_links_are_rendered() -> None:
    styled = render(
        '- [ ] open\n- [x] done\n- [link](https://a.example)\n\n![A cat](https://b.example/c.png "Tom") '
        "![](https://d.example/e.png)\nSee <https://f.example/_x_> or <me@g.example>, **重点**内容"
    )
    assert styled.text == (
        "☐ open\n☑ done\n• link\n\n🖼 A cat 🖼 image\nSee https://f.example/_x_ or me@g.example, 重点内容"
    )
    assert [(styled.text[entity.start : entity.end], entity.url) for entity in styled.entities if entity.url] == [
        ("link", "https://a.example"),
        ("🖼 A cat", "https://b.example/c.png"),
        ("🖼 image", "https://d.example/e.png"),
        ("https://f.example/_x_", "https://f.example/_x_"),
        ("me@g.example", "mailto:me@g.example"),
    ]
    assert _parts(styled, BOLD) == ["重点"]


@every_row(
    ("written", "shown", "kind", "parts"),
    [
        ("Plan\n====\n\nfirst\n\nWhy\n---\nbecause", "Plan\n\nfirst\n\nWhy\nbecause", BOLD, ["Plan", "Why"]),
        ("see [the docs][1]\n\n[1]: https://a.example/x", "see the docs", LINK, ["the docs"]),
        ("tea &amp; cake &lt;3 &#8364;", "tea & cake <3 €", BOLD, []),
        ("one<br>two<br/>three<BR />four", "one\ntwo\nthree\nfour", BOLD, []),
        ("so:\n\n    def f():\n        return 1\n\nend", "so:\n\ndef f():\n    return 1\n\nend", PRE,
         ["def f():\n    return 1"]),
        ("un**believ**able **bold**ness", "unbelievable boldness", BOLD, ["believ", "bold"]),
        ("it was ||the butler **himself**||.", "it was the butler himself.", SPOILER, ["the butler himself"]),
        ("so it is[^1] and[^n].\n\n[^1]: says *Ann*\n[^n]: says Bob", "so it is¹ and[n].\n\n¹ says Ann\n[n] says Bob",
         ITALIC, ["Ann"]),
        ("it was ||the *butler*\nhimself||.", "it was the butler\nhimself.", SPOILER, ["the butler\nhimself"]),
        ("so:\n||\nthe butler\nhimself\n||\nsaid Ann", "so:\nthe butler\nhimself\nsaid Ann", SPOILER,
         ["the butler\nhimself"]),
        ("> it was ||the butler\n> himself||", "it was the butler\nhimself", SPOILER, ["the butler\nhimself"]),
        ("so[^1]\n\n[^1]: says *Ann\n    and* Bob\n    - twice\n\n    to `me`\n\nend",
         "so¹\n\n¹ says Ann\nand Bob\n• twice\n\nto me\n\nend", ITALIC, ["Ann\nand"]),
        ("so[^1] and[^2]\n\n[^1]: Ann\n    says\n[^2]: Bob\n\n        x = 1\n\n    code",
         "so¹ and²\n\n¹ Ann\nsays\n² Bob\n\nx = 1\n\ncode", PRE, ["x = 1"]),
        ("- so[^1]\n\n  [^1]: Ann\n      says\n- end", "• so¹\n\n¹ Ann\nsays\n• end", PRE, []),
        ("[^1]: Ann\n\n    says", "¹ Ann\n\nsays", PRE, []),
    ],
)  # fmt: skip
def test_more_kinds_of_markdown_are_rendered(written: str, shown: str, kind: str, parts: list[str]) -> None:
    styled = render(written)
    assert styled.text == shown
    assert _parts(styled, kind) == parts
    _check(styled, split(styled))


@every_row(
    "written",
    [
        "x**y + z**w, x**y**z",
        "if a || b || c, a||b||c and ||",
        "if a ||\nb || c,\nd\n|| e || f ||\ng",
        "the class [^1] and [^abc]",
        "[unused]: https://a.example/x",
        "text\n\n[a]: https://a.example\n[b]: https://b.example",
        "a <brx> b and <b>",
        "no & entity; &unknown;",
    ],
)
def test_what_only_looks_like_markdown_stays(written: str) -> None:
    assert render(written).text == written
    assert not [entity for entity in render(written).entities if entity.kind in (BOLD, SPOILER)]


def test_a_link_definition_stays_visible_unless_a_link_uses_it() -> None:
    styled = render("[a] and [b]\n\n[a]: https://a.example\n[c]: https://c.example\n[a]: https://other.example")
    assert styled.text == "a and [b]\n\n\n[c]: https://c.example\n[a]: https://other.example"
    assert [entity.url for entity in styled.entities] == ["https://a.example"]
    assert [entity.url for entity in render("[**bold** link](https://d.example)").entities if entity.url] == [
        "https://d.example"
    ]


def test_footnotes_inside_footnotes_end_in_plain_text() -> None:
    written = "\n\n".join(f"{'    ' * depth}[^1]: note" for depth in range(400))
    assert render(written).text.count("note") == 400


def test_an_entity_brings_no_hidden_character_and_a_spoiler_hides_code() -> None:
    assert "\u202e" not in render("a &#x202e; b").text
    styled = render("||it is `4711`||")
    assert (_parts(styled, SPOILER), _parts(styled, CODE)) == (["it is 4711"], [])


def test_escape_codes_and_hidden_characters_are_made_visible() -> None:
    styled = render("red \x1b[31m, reversed \u202e, half \ud800")
    assert "\x1b" not in styled.text
    assert "\u202e" not in styled.text
    styled.text.encode("utf-8")


def test_an_unfinished_code_block_is_shown_as_code() -> None:
    assert _parts(render("look:\n```\nfirst line\nsecond"), PRE) == ["first line\nsecond"]


def _check(styled: Styled, messages: list[Styled]) -> None:
    """Check what Telegram demands of every message, and what we promise."""
    flat = "".join(styled.text.split())
    assert "".join("".join(message.text.split()) for message in messages) == flat, "text was lost or duplicated"
    for message in messages:
        assert 0 < units(message.text) <= LIMIT
        assert message.text == message.text.strip()
        assert len(message.entities) <= ENTITIES
        message.text.encode("utf-16-le")
        for entity in message.entities:
            assert 0 <= entity.start < entity.end <= len(message.text)
        code = [entity for entity in message.entities if entity.kind in (CODE, PRE)]
        for entity in message.entities:
            if entity.kind not in (CODE, PRE, QUOTE):
                assert not any(entity.start < other.end and other.start < entity.end for other in code)


@given(st.text(st.sampled_from("*_`~[]()#>|-=^:&\\ \nab😀é\u0301\u200d"), max_size=300))
def test_any_markup_gives_a_message_that_telegram_accepts(written: str) -> None:
    styled = render(written)
    if written.strip():
        assert styled.text or not written.strip("*_`~[]()#>|-=^:&\\ \n\u200d\u0301")
    _check(styled, split(styled))


@given(st.text(st.sampled_from("*_[]!#>|-+=^:1.\\ \n\tab<é答"), max_size=300))
def test_no_markup_makes_a_word_disappear(written: str) -> None:
    def letters(text: str) -> str:
        return "".join(char for char in text if char in "abé答")

    assert letters(render(written).text) == letters(written)


@pytest.mark.parametrize("nested", ["> " * 200, "- " * 200, "".join(f"{' ' * 2 * level}- x\n" for level in range(90))])
def test_deeply_nested_markup_keeps_its_words(nested: str) -> None:
    assert "the heron" in render(f"{nested}the heron").text


@given(
    st.lists(
        st.sampled_from(["**bold words** ", "plain words ", "`code` ", "😀", "ein langesWort", "\n", "\n\n", "Satz. "]),
        min_size=1,
        max_size=60,
    ),
    st.integers(1, 60),
)
def test_a_long_text_is_split_and_not_truncated(fragments: list[str], times: int) -> None:
    styled = render("".join(fragments) * times)
    _check(styled, split(styled))


def test_texts_are_split_where_a_reader_would_pause() -> None:
    paragraph = "A sentence of some length that goes on. " * 20
    messages = split(render("\n\n".join([paragraph.strip()] * 12)))
    assert len(messages) > 1
    assert all(message.text.endswith("goes on.") for message in messages)
    one_line = split(render("A sentence of some length that goes on. " * 300))
    assert all(message.text.endswith("goes on.") for message in one_line)
    no_pauses = split(render("word " * 3000))
    assert all(set(message.text.split()) == {"word"} for message in no_pauses)


def test_formatting_continues_in_the_next_message() -> None:
    (first, second, *_) = split(render(f"**{'bold ' * 1500}end**"))
    assert _parts(first, BOLD) == [first.text]
    assert _parts(second, BOLD) == [second.text]
    code = "\n".join(f"line {number} of the program" for number in range(400))
    messages = split(render(f"See:\n```py\n{code}\n```\nDone."))
    assert len(messages) > 2
    for message in messages[1:-1]:
        assert _parts(message, PRE) == [message.text]
    assert "\n".join(text for message in messages for text in _parts(message, PRE)) == code
    # A block that fits into one message is not cut in two.
    messages = split(render("word " * 500 + "\n```\n" + "x\n" * 1000 + "```"))
    assert [len(_parts(message, PRE)) for message in messages] == [0, 1]


def test_emoji_and_accents_are_not_split() -> None:
    family = "👨‍👩‍👧‍👦"
    for text in (family * 600, "e\u0301" * 5000, "👍🏽" * 2500):
        messages = split(Styled(text, []))
        assert "".join(message.text for message in messages) == text
        for message in messages[1:]:
            assert message.text[0] not in "\u200d\u0301\U0001f3fd"


@every_row("hostile", ["*a* ", "[", "`a`", "_*", "**a ", "\\`", "> ", "~~", "a`b``c", "](x) ["])
def test_hostile_markup_is_kept_completely(hostile: str) -> None:
    styled = render(hostile * 8_000)
    _check(styled, split(styled))
