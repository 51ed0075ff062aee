"""The corpus of secrets beside every script: glued to words before and after, quoted, escaped, numbered, and broken
over lines in every way, each of these also quoted and inside JSON.

    python -m tests.safety.scripts [COUNT]

prints how many of them are masked, by script and by form, and how many harmless lookalikes in the same places are
changed.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from cortext.safety.secrets.masking import mask
from tests.safety.planted import KINDS, Maker, harmless
from tests.safety.planted import _plain as has_own_form

# What is said before a key, before a password, and after both, without a blank.
SCRIPTS = {
    "Han": ("密钥是", "密码是", "，然后重启服务"),
    "Kana": ("キーは", "パスワードは", "です。"),
    "Hangul": ("키는", "비밀번호는 ", "입니다"),
    "Cyrillic": ("ключ", "пароль: ", "потом"),
    "Greek": ("κλειδί", "κωδικός password：", "μετά"),
    "Arabic": ("المفتاح", "password＝", "ثم"),
    "Devanagari": ("कुंजी", "password: ", "फिर"),
    "Latin": ("clé", "password是", "élève"),
}
# Broken over lines, these are not recognised: their mark is in the middle, or too short to be one.
UNMARKED = ("telegram", "azure devops", "twilio", "discord")
# What stands where a key is broken: by a terminal, an editor, a language, a page.
JOINTS = {
    "wrapped": "\n",
    "wrapped and indented": "\n    ",
    "wrapped, with carriage returns": "\r\n",
    "continued by a backslash": "\\\n",
    "in adjacent strings": '"\n    "',
    "in added strings": '" +\n    "',
    "in a box": "   │\n│ ",
    "in colour": "\x1b[0m\n\x1b[32m",
    "broken by a tag": "<br>",
    "quoted by a mail": "\n> ",
    "in a comment": "\n# ",
    "in a comment of C": "\n  // ",
    "in a long comment of C": "\n * ",
}
QUOTES = ("“”", "「」", "«»", "''", '""', "``", "（）", "【】")


Writer = Callable[[random.Random, str, str, str], str]


class Form(NamedTuple):
    """A way in which a secret stands in a text; `breaks` if it is not in one piece there."""

    write: Writer
    breaks: bool = False


def _numbered(text: str, style: str) -> str:
    return "\n".join(style.format(number, line) for number, line in enumerate(text.split("\n"), 9))


def _broken(rng: random.Random, secret: str) -> tuple[str, str]:
    at = rng.randint(max(12, len(secret) // 3), len(secret) - 4)
    return secret[:at], secret[at:]


def _escaped(write: Writer) -> Writer:
    def within(rng: random.Random, before: str, secret: str, after: str) -> str:
        return json.dumps({"text": write(rng, before, secret, after)}, ensure_ascii=rng.random() < 0.5)

    return within


def _quoted(write: Writer) -> Writer:
    def within(rng: random.Random, before: str, secret: str, after: str) -> str:
        quotes = rng.choice(QUOTES)
        return write(rng, before + quotes[0], secret, quotes[1] + after)

    return within


def _wrapped(joint: str) -> Writer:
    def write(rng: random.Random, before: str, secret: str, after: str) -> str:
        one, two = _broken(rng, secret)
        return f"{before}：retry budget = {one}{joint}{two}\n{after}"

    return write


FORMS = {
    "glued": Form(lambda rng, before, secret, after: f"{before}{secret}{after}"),
    "glued before": Form(lambda rng, before, secret, after: f"{before}{secret} {after}"),
    "glued after": Form(lambda rng, before, secret, after: f"{before} {secret}{after}"),
    "full-width colon": Form(lambda rng, before, secret, after: f"{before.rstrip('是は＝： ')}：{secret}{after}"),
    "quoted": Form(
        lambda rng, before, secret, after: secret.join((before + (q := rng.choice(QUOTES))[0], q[1] + after))
    ),
    "numbered": Form(
        lambda rng, before, secret, after: _numbered(
            f"{after}\n{before}{secret}\n{after}", rng.choice(("{:6}→{}", "{}: {}", "{:4}\t{}"))
        )
    ),
    "escaped": Form(lambda rng, before, secret, after: f'{{"text": "{after}\\n{before}{secret}{after}\\n"}}'),
    "wrapped and numbered": Form(
        lambda rng, before, secret, after: _numbered(_wrapped("\n")(rng, before, secret, after), "{:6}→{}"), breaks=True
    ),
}
for _name, _joint in JOINTS.items():
    FORMS[_name] = Form(_wrapped(_joint), breaks=True)
    FORMS[f"{_name}, escaped"] = Form(_escaped(_wrapped(_joint)), breaks=True)
    FORMS[f"{_name}, quoted"] = Form(_quoted(_wrapped(_joint)), breaks=True)
    FORMS[f"{_name}, quoted and escaped"] = Form(_escaped(_quoted(_wrapped(_joint))), breaks=True)


class Case(NamedTuple):
    script: str
    form: str
    kind: str
    text: str
    pieces: tuple[str, ...]  # none of these may stay visible


def corpus(count: int, seed: int) -> Iterator[Case]:
    """Yield so many keys, and so many passwords, for every script and form."""
    maker, rng = Maker(seed), random.Random(seed)
    own = [kind for kind, (_, embed) in KINDS.items() if embed is has_own_form]
    marked = [kind for kind in own if kind not in UNMARKED]
    for _ in range(count):
        for script, (key, password, after) in SCRIPTS.items():
            for name, form in FORMS.items():
                kind = rng.choice(marked if form.breaks else own)
                secret = KINDS[kind][0](maker)
                text = form.write(rng, key, secret, after)
                pieces = (secret,) if secret in text else (secret[:12], secret[-8:])
                yield Case(script, name, kind, text, pieces)
                if not form.breaks:
                    secret = maker.password()
                    yield Case(script, name, "password", form.write(rng, password, secret, after), (secret,))


def lookalikes(count: int, seed: int) -> Iterator[tuple[str, str]]:
    """Yield harmless texts between words of every script, with their kind."""
    rng = random.Random(seed)
    for kind, text in harmless(count, seed):
        key, _, after = rng.choice(list(SCRIPTS.values()))
        yield (
            kind,
            rng.choice((f"{key}{text}{after}", f"{key}：{text}\n{after}", f"「{text}」{after}", f"{text}\n{text}")),
        )


def missed(cases: Iterator[Case]) -> list[Case]:
    """Return the cases in which a piece of the secret stays visible."""
    return [case for case in cases if any(piece in mask(case.text).text for piece in case.pieces)]


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    cases = list(corpus(count, seed=7))
    bad = missed(iter(cases))
    total, wrong = Counter(case.form for case in cases), Counter(case.form for case in bad)
    for form in total:
        print(f"{form:48} {total[form] - wrong[form]:6} of {total[form]:6} masked")
    total, wrong = Counter(case.script for case in cases), Counter(case.script for case in bad)
    for script in total:
        print(f"{script:48} {total[script] - wrong[script]:6} of {total[script]:6} masked")
    texts = list(lookalikes(100 * count, seed=8))
    changed = [(kind, text) for kind, text in texts if mask(text).findings]
    print(f"{'all':48} {len(cases) - len(bad):6} of {len(cases):6} masked")
    print(f"{'harmless lookalikes':48} {len(changed):6} of {len(texts):6} changed")
    for case in bad[:8]:
        print(f"  missed: {case.kind}, {case.form}: {case.text!r:.160}")
    for kind, text in changed[:8]:
        print(f"  changed: {kind}: {text!r:.160}")


if __name__ == "__main__":
    main()
