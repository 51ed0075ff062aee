"""Planted secrets and harmless lookalikes from a seeded generator, to measure masking with.

None of these was ever a real key. The generators follow the published formats (alphabet, length, prefix), not the
rules under test; the texts around them are what people and tools write.
"""

from __future__ import annotations

import base64
import random
import string
from collections.abc import Callable
from typing import NamedTuple

ALNUM = string.ascii_letters + string.digits
URL = ALNUM + "-_"
B64 = ALNUM + "+/"
LOWER = string.ascii_lowercase + string.digits
DIGITS = string.digits
NONZERO = "123456789"
HEX = "0123456789abcdef"
_TALK = (
    "kitchen order stock invoice tablet supplier report sync worker cursor batch deploy branch release window retry "
    "token budget parser schema client server header index cache storage lookup render filter metric"
)
WORDS = _TALK.split()
_WALLET = (
    "abandon ability able about above absent absorb abstract absurd abuse access accident zebra zero zone zoo velvet "
    "vendor venture venue verb verify version very vessel veteran viable vibrant vicious victory video view"
)
SEEDS = _WALLET.split()


class Planted(NamedTuple):
    kind: str
    secret: str
    text: str


class Maker:
    """Random secrets and texts; the same seed gives the same results."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def draw(self, alphabet: str, least: int, most: int = 0) -> str:
        return "".join(self.rng.choices(alphabet, k=self.rng.randint(least, most or least)))

    def pick(self, *choices: str) -> str:
        return self.rng.choice(choices)

    def word(self) -> str:
        return self.rng.choice(WORDS)

    def password(self) -> str:
        """Return a password as password managers, or people, make them."""
        if self.rng.random() < 0.5:
            body = self.draw(ALNUM + "!#%*+-_?^~", 9, 24)
            return self.draw(string.ascii_uppercase, 1) + self.draw(DIGITS, 1) + body
        word = self.pick("Velvet", "harbor", "Quartz", "tumble", "Osprey", "cobalt", "Marmot", "zephyr")
        return (
            word
            + self.pick("", "-", "_", "!")
            + self.word().title()
            + self.draw(DIGITS, 2, 4)
            + self.pick("", "!", "#", "?")
        )

    def pem(self, label: str) -> str:
        lines = [self.draw(B64, 64) for _ in range(self.rng.randint(6, 24))] + [self.draw(B64, 20, 60) + "=="]
        return "\n".join([f"-----BEGIN {label}-----", *lines, f"-----END {label}-----"])

    def jwt(self) -> str:
        def part(text: str) -> str:
            return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

        claims = f'{{"sub":"{self.draw(DIGITS, 6)}","iss":"{self.word()}","exp":{self.draw(NONZERO, 10)}}}'
        return ".".join(
            [part('{"alg":"' + self.pick("HS256", "RS256") + '","typ":"JWT"}'), part(claims), self.draw(URL, 43, 86)]
        )


def _plain(m: Maker, secret: str) -> str:
    """A secret with a form of its own needs no word before it."""
    one, two = m.word(), m.word()
    return m.pick(
        f"I keep getting 401s with {secret} from the {one} service, did it rotate?",
        f"here you go: {secret}",
        f"Use `{secret}` for the {one} sandbox.",
        f'{{"service": "{one}", "auth": "{secret}", "retries": 3}}',
        f"export {one.upper()}_{two.upper()}={secret}",
        f'client = {one.title()}Client("{secret}", timeout=30)',
        f"{one}:\n  {two}:\n    credential: {secret}\n    region: eu-west-1\n",
        f"curl -s https://api.{one}.dev/v2/{two}?limit=20 -H 'X-{one.title()}: {secret}' | jq .",
        f"2026-01-{m.draw('12', 2)} 10:02:11 DEBUG {one}: sending {secret} to upstream\\n2026-01-12 next line",
        f'"output": "{one.upper()}={secret}\\nDEBUG=1\\n"',
        f"- {one}\n- {secret}\n- {two}",
        f"the {one} one is {secret}, the other one expired.",
        f"+{one.upper()}_AUTH={secret}\n-{one.upper()}_AUTH=\n",
        f"https://api.{one}.io/{two}?auth={secret}&page=2",
    )


def _assigned(names: tuple[str, ...]) -> Callable[[Maker, str], str]:
    def text(m: Maker, secret: str) -> str:
        name = m.pick(*names)
        upper = name.upper().replace(" ", "_").replace("-", "_")
        snake = upper.lower()
        camel = snake.split("_")[0] + "".join(piece.title() for piece in snake.split("_")[1:])
        return m.pick(
            f'{snake} = "{secret}"',
            f"{upper}={secret}",
            f"export {upper}='{secret}' && make {m.word()}",
            f'{{"{camel}": "{secret}", "region": "eu"}}',
            f'"{snake}": "{secret}"',
            f"{snake}: {secret}\nhost: db.internal\n",
            f"const {camel} = '{secret}';",
            f"The {name} is {secret} and it works since yesterday",
            f"my {name}: {secret}",
            f'{{\\"{snake}\\": \\"{secret}\\"}}',
            f"./run --{snake.replace('_', '-')} {secret} --verbose",
            f"      - name: {upper}\n        value: {secret}\n",
            f"config.set('{snake}', '{secret}')",
            f"{m.word()}_{snake}={secret}\n{m.word()}=1",
        )

    return text


def _inside(form: str) -> Callable[[Maker, str], str]:
    """Embed the secret at `§` of a form, inside ordinary text."""

    def text(m: Maker, secret: str) -> str:
        whole = form.replace("§", secret).replace("¤", m.word())
        return m.pick(whole, f"It fails with {whole} on my machine", f'URL = "{whole}"', f"RUN: {whole}\nthen wait")

    return text


KEY_WORDS = (
    "api key",
    "api_key",
    "access token",
    "auth token",
    "client secret",
    "secret key",
    "webhook secret",
    "token",
)
PASSWORD_WORDS = ("password", "db password", "smtp_password", "passwd", "admin password", "PASSWORD", "passphrase")

KINDS: dict[str, tuple[Callable[[Maker], str], Callable[[Maker, str], str]]] = {
    "aws id": (lambda m: m.pick("AKIA", "ASIA") + m.draw(string.ascii_uppercase + "234567", 16), _plain),
    "aws secret": (lambda m: m.draw(B64, 40), _assigned(("aws secret access key", "secret access key"))),
    "gcp key": (lambda m: "AIza" + m.draw(URL, 35), _plain),
    "google oauth secret": (lambda m: "GOCSPX-" + m.draw(URL, 28), _plain),
    "google oauth token": (lambda m: "ya29." + m.draw(URL, 60, 180), _plain),
    "azure storage": (
        lambda m: m.draw(B64, 86) + "==",
        _inside("DefaultEndpointsProtocol=https;AccountName=¤;AccountKey=§;EndpointSuffix=core.windows.net"),
    ),
    "github classic": (lambda m: m.pick("ghp_", "gho_", "ghu_", "ghs_") + m.draw(ALNUM, 36), _plain),
    "github refresh": (lambda m: "ghr_" + m.draw(ALNUM, 76), _plain),
    "github fine": (lambda m: f"github_pat_{m.draw(ALNUM, 22)}_{m.draw(ALNUM, 59)}", _plain),
    "gitlab": (lambda m: m.pick("glpat-", "gldt-", "glrt-", "glptt-") + m.draw(URL, 20), _plain),
    "slack": (
        lambda m: f"{m.pick('xoxb', 'xoxp')}-{m.draw(DIGITS, 11, 13)}-{m.draw(DIGITS, 12)}-{m.draw(ALNUM, 24)}",
        _plain,
    ),
    "slack webhook": (
        lambda m: f"T{m.draw(LOWER.upper(), 8, 10)}/B{m.draw(LOWER.upper(), 8, 10)}/{m.draw(ALNUM, 24)}",
        _inside("https://hooks.slack.com/services/§"),
    ),
    "stripe": (lambda m: m.pick("sk_live_", "rk_live_", "sk_test_") + m.draw(ALNUM, 24, 99), _plain),
    "anthropic": (lambda m: f"sk-ant-{m.pick('api03', 'admin01', 'oat01')}-{m.draw(URL, 93)}AA", _plain),
    "openai old": (lambda m: f"sk-{m.draw(ALNUM, 20)}T3BlbkFJ{m.draw(ALNUM, 20)}", _plain),
    "openai project": (
        lambda m: f"sk-{m.pick('proj', 'svcacct')}-{m.draw(URL, 58, 74)}T3BlbkFJ{m.draw(URL, 58, 74)}",
        _plain,
    ),
    "huggingface": (lambda m: "hf_" + m.draw(string.ascii_letters, 34), _plain),
    "npm": (lambda m: "npm_" + m.draw(ALNUM, 36), _plain),
    "pypi": (lambda m: "pypi-AgEIcHlwaS5vcmc" + m.draw(URL, 80, 150), _plain),
    "sendgrid": (lambda m: f"SG.{m.draw(URL, 22)}.{m.draw(URL, 43)}", _plain),
    "twilio": (lambda m: "SK" + m.draw(HEX, 32), _plain),
    "twilio token": (lambda m: m.draw(HEX, 32), _assigned(("twilio auth token",))),
    "telegram": (lambda m: f"{m.draw(NONZERO, 9, 10)}:AA{m.draw(URL, 33)}", _plain),
    "discord": (
        lambda m: f"{base64.b64encode(m.draw(NONZERO, 18).encode()).decode()}.{m.draw(URL, 6)}.{m.draw(URL, 27, 38)}",
        _plain,
    ),
    "jwt": (lambda m: m.jwt(), _plain),
    "pem": (
        lambda m: m.pem(m.pick("RSA PRIVATE KEY", "PRIVATE KEY", "EC PRIVATE KEY", "OPENSSH PRIVATE KEY")),
        lambda m, s: f"id_rsa:\n{s}\n",
    ),
    "pem in json": (
        lambda m: m.pem("PRIVATE KEY").replace("\n", "\\n"),
        lambda m, s: f'{{"type": "service_account", "private_key": "{s}\\n"}}',
    ),
    "pgp": (
        lambda m: m.pem("PGP PRIVATE KEY BLOCK").replace("-----\n", "-----\n\n", 1),
        lambda m, s: f"exported:\n\n{s}\n\nthat is all",
    ),
    "database url": (lambda m: m.password(), _inside("postgresql://¤:§@db.internal:5432/¤")),
    "redis url": (lambda m: m.draw(ALNUM, 16, 32), _inside("redis://:§@cache.internal:6379/0")),
    "git url": (lambda m: m.draw(ALNUM, 16, 40), _inside("https://deploy:§@git.internal/¤/¤.git")),
    "bearer": (
        lambda m: m.draw(ALNUM + "-._~", 24, 64) + m.draw(ALNUM, 2),
        _inside("curl -H 'Authorization: Bearer §' https://api.¤.dev"),
    ),
    "api key": (lambda m: m.draw(m.pick(ALNUM, LOWER, HEX), 24, 48), _assigned(KEY_WORDS)),
    "password": (lambda m: m.password(), _assigned(PASSWORD_WORDS)),
    "azure devops": (lambda m: m.draw(ALNUM, 76) + "AZDO" + m.draw(ALNUM, 4), _plain),
    "azure devops old": (
        lambda m: m.draw(string.ascii_lowercase + "234567", 52),
        _inside("AZURE_DEVOPS_EXT_PAT=§"),
    ),
    "docker auth": (
        lambda m: base64.b64encode(f"{m.word()}:{m.password()}".encode()).decode(),
        _inside('{"auths": {"registry.¤.dev": {"auth": "§"}}}'),
    ),
    "odd database url": (
        lambda m: f"{m.draw(ALNUM, 6)}@{m.draw(ALNUM, 5)}/{m.draw(ALNUM, 6)}",
        _inside("postgresql://¤:§@db.internal:5432/¤"),
    ),
    "session cookie": (lambda m: m.draw(LOWER, 32), _inside("Cookie: theme=dark; sessionid=§; lang=en")),
    "php session": (lambda m: m.draw(LOWER, 26), _inside("PHPSESSID=§")),
    "seed phrase": (
        lambda m: " ".join(m.rng.sample(SEEDS, 12)),
        lambda m, s: m.pick(f"seed phrase: {s}", f'mnemonic = "{s}"', f"My recovery phrase is {s}\nkeep it"),
    ),
    "netrc": (lambda m: m.password(), _inside("machine api.¤.dev login deploy password §")),
    "basic": (
        lambda m: base64.b64encode(f"{m.word()}:{m.password()}".encode()).decode(),
        _inside("curl -H 'Authorization: Basic §' https://api.¤.dev"),
    ),
}


def planted(count: int, seed: int) -> list[Planted]:
    """Return this many secrets, of every kind in turn."""
    maker, kinds = Maker(seed), list(KINDS)
    out = []
    for number in range(count):
        kind = kinds[number % len(kinds)]
        make, embed = KINDS[kind]
        secret = make(maker)
        out.append(Planted(kind, secret, embed(maker, secret)))
    return out


def _harmless(m: Maker) -> tuple[str, str]:
    one, two, three = m.word(), m.word(), m.word()
    camel = one + two.title() + three.title()
    choices: dict[str, Callable[[], str]] = {
        "git hash": lambda: f"commit {m.draw(HEX, 40)}\nAuthor: Sam\n\n    {one} {two}",
        "short hash": lambda: f"fixed in {m.draw(HEX, 7)}, see {m.draw(HEX, 12)}..{m.draw(HEX, 12)}",
        "sha256": lambda: f"sha256:{m.draw(HEX, 64)}  {one}.tar.gz",
        "md5": lambda: f"{m.draw(HEX, 32)}  {one}-{two}.zip",
        "uuid": lambda: f"{m.pick('id', 'session', 'request_id', 'trace')}={_uuid(m)} status=200",
        "integrity": lambda: f'"integrity": "sha512-{m.draw(B64, 86)}==",',
        "pip hash": lambda: f"{one}=={m.draw(NONZERO, 1)}.4.2 --hash=sha256:{m.draw(HEX, 64)}",
        "image": lambda: f"![{one}](data:image/png;base64,iVBORw0KGgo{m.draw(B64, 200, 900)}==)",
        "source map": lambda: f"//# sourceMappingURL=data:application/json;base64,eyJ2ZXJzaW9uIjoz{m.draw(B64, 120)}",
        "minified": lambda: (
            f"!function(e,t){{var n=e.{one},r=t[{m.draw(NONZERO, 3)}];return n&&r.{two}(function(){{o=1}})}}(this);"
        ),
        "css": lambda: (
            f".{one}-{two}{{color:#{m.draw(HEX, 6)};background:rgba(12,9,9,.4);margin:0 {m.draw('123', 1)}px}}"
        ),
        "path": lambda: f"/home/sam/{one}/src/{two}/{camel}_{m.draw(NONZERO, 2)}.test.tsx:{m.draw(NONZERO, 2)}:7",
        "version": lambda: (
            f"{one}-{two}@{m.draw(NONZERO, 1)}.{m.draw(NONZERO, 2)}.0-rc.{m.draw(NONZERO, 1)}+build.{m.draw(HEX, 7)}"
        ),
        "test name": lambda: f"test_{one}_{two}_token_is_refused_after_{m.draw(NONZERO, 2)}_days PASSED",
        "query": lambda: (
            f"https://shop.dev/{one}?utm_source={two}&ref={m.draw(ALNUM, 8)}&page={m.draw(NONZERO, 2)}#{three}"
        ),
        "placeholder": lambda: m.pick(
            "OPENAI_API_KEY=sk-...",
            "api_key = '<your-api-key>'",
            "token: xxxxxxxxxxxxxxxxxxxx",
            "GITHUB_TOKEN=ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
            "password: ${DB_PASSWORD}",
            "AWS_ACCESS_KEY_ID=AKIAIOSFODNN7EXAMPLE",
            "secret = os.environ['CLIENT_SECRET']",
            "apiKey: process.env.API_KEY",
            "Authorization: Bearer <token>",
            "Authorization: Bearer $TOKEN",
            "postgres://user:password@localhost:5432/db",
            "postgres://postgres:postgres@localhost/test",
            "password = '********'",
            "export ANTHROPIC_API_KEY=your-key-here",
            "API_KEY={{ secrets.api_key }}",
            "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
            "sk-ant-api03-EXAMPLE-NOT-A-REAL-KEY-0000000000000000",
            "mysql://root:root@127.0.0.1/app",
            "TOKEN=changeme",
            "https://user:pass@example.com",
            "--token YOUR_TOKEN_GOES_HERE",
            "password: <PASSWORD>",
            "hf_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        ),
        "code": lambda: m.pick(
            f"token = {one}.next_token()",
            f"def check_password(self, password: str) -> bool:  # {two}",
            f"password = getpass.getpass('{one} password: ')",
            f"max_tokens={m.draw(NONZERO, 4)}, temperature=0.{m.draw(NONZERO, 1)}",
            f"const token = await {camel}.getAccessToken();",
            f"if token == {one.upper()}_TOKEN: pass",
            f'"tokens": {m.draw(NONZERO, 5)}, "input_tokens": {m.draw(NONZERO, 4)}',
            f'secret_name: "{one}-{two}-credentials"',
            f"key={camel}Key, token_type=Bearer",
            f'{{"key": "{one}.{two}", "token": null}}',
            f"password_field = form.fields['{one}_password']",
            f"api_key=config.{one}.api_key,",
            f'tokenizer = "{one}-{two}-v{m.draw(NONZERO, 1)}"',
            f"cache_key = f'{one}:{{user_id}}:{two}'",
            f"interface Login {{ user: string; password: string; token?: {one.title()}Token }}",
            f'<input type="password" name="password" id="{one}-password" placeholder="{two}">',
            f'page_token = "{m.draw(ALNUM, 24)}"',
            f"ssh_host_key: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{m.draw(B64, 43)} {one}@host",
            f"-----BEGIN CERTIFICATE-----\n{m.draw(B64, 64)}\n{m.draw(B64, 64)}\n-----END CERTIFICATE-----",
            f"pk_live_{m.draw(ALNUM, 24)} is the publishable one",
        ),
        "prose": lambda: m.pick(
            f"The password reset for {one} sends a token that expires after {m.draw('12345', 2)} minutes.",
            f"Passwords are hashed; the token is short-lived and the secret is rotated every {one}.",
            f"A key question is whether the {one} token survives the {two}.",
            f"the api key is stored in the vault under {one}/{two}",
            "Your password must be 8-64 characters, with one digit.",
            f"Bearer authentication is enough for {one}; basic auth is not.",
        ),
        "phone": lambda: (
            f"call +49 {m.draw(NONZERO, 3)} {m.draw(NONZERO, 7)} or {m.draw(NONZERO, 3)}-555-{m.draw(NONZERO, 4)}"
        ),
        "long word": lambda: m.pick(
            "Donaudampfschifffahrtsgesellschaftskapitän sagt hallo",
            f"AbstractSingletonProxyFactoryBeanFor{one.title()}{two.title()}",
            f"{one}_{two}_{three}_{one}_{two}_{m.draw(NONZERO, 4)}_total",
            f"kubernetes.io/{one}-{two}-{m.draw(LOWER, 10)}-{m.draw(LOWER, 5)}",
        ),
        "etag": lambda: (
            f'ETag: W/"{m.draw(HEX, 32)}"\nX-Request-Id: {m.draw(ALNUM, 22)}\nContent-Length: {m.draw(NONZERO, 4)}'
        ),
        "docker": lambda: f"registry.dev/{one}@sha256:{m.draw(HEX, 64)}\n---> {m.draw(HEX, 12)}",
        "base64": lambda: f"payload: {base64.b64encode(' '.join(WORDS[: m.rng.randint(4, 20)]).encode()).decode()}",
        "cookies": lambda: m.pick(
            f"Cookie: theme=dark; lang={one}",
            f"Set-Cookie: {one}_session=deleted; Max-Age=0",
            f"the {one} session={two}-{three} is shown in the list",
            f"GET /{one}?session={_uuid(m)}",
        ),
        "seeds": lambda: m.pick(
            f"seed words: the {one} keeps {two} and {three} for later because nobody asked about them again",
            f"Set the random seed: {one} {two} {three} then run it twice",
            f"recovery: {one} {two}, and after that the {three} comes back with its old data from the disk",
            f"apt: path={one} pattern={two}",
        ),
        "marks without a key": lambda: m.pick(
            f"secret_{one}_{two}_{three}_name_of_the_cluster",
            f"config :{one}, phx_{one}_{two}_endpoint_{three}: true",
            f"v1.0-{one} and v1.0-rc{m.draw(NONZERO, 1)}-{m.draw(HEX, 7)}",
            f"sgp_{one}_{two}, glc_{one}_{two}_{three}_context, bedrock-api-key-for-the-{one}-team",
            f"K{m.draw(ALNUM, 51)} L{m.draw(ALNUM, 51)} 5H{m.draw(ALNUM, 49)}",
            f"ENV PATH /usr/local/{one}/bin:$PATH\nENV TOKEN_URL https://{one}.dev/token\nARG PASSWORD",
            f'variable "{one}_password_length" {{\n  type = number\n  default = 24\n}}',
            'variable "token_type" {\n  default = "bearer"\n}',
            "ConvertTo-SecureString $plain -AsPlainText -Force",
            f"chpasswd < /run/{one}.txt && echo {one}: {two} | tee {three}.log",
            f"rabbitmqctl add_user {one} $RABBIT_PASSWORD && zip -P $ZIP_PASSWORD {two}.zip {three}",
            f'variable "secret_{one}" {{\n  default = "{two}-{m.draw(NONZERO, 1)}"\n}}',
            f"git+ssh://{one}:{two}/{three}{m.draw(NONZERO, 1)}@{one}.dev and jdbc:oracle:thin://h:{two}/{one}@{three}:1521",
            f"zip -P {one}.zip {two}; the ConvertTo-SecureString cmdlet reads the {three}",
            f'"token": {{"default": "./{one}/{two}.js"}}, "password": {{"type": "string", "default": ""}}',
            f"scp -P 2222 {one}.zip {two}:; tar -w {three}; curl -w '%{{http_code}}' x",
            f"https://{one}.dev:8443/{two}#{three}@{one}.dev and http://localhost:3000/a/@{two}/{three}.js",
            f'<add key="{one.title()}Timeout" value="{m.draw(NONZERO, 4)}" /> <input name="password" value="" />',
        ),
        "a word after a key's line": lambda: (
            f"{m.pick('密码', 'password', 'пароль')}是什么？ {one}，password的{two}，密钥是{three}。"
        ),
        "numbers": lambda: f"{m.draw(NONZERO, 16)} {m.draw(NONZERO, 3)}.{m.draw(NONZERO, 8)},{m.draw(NONZERO, 10)}",
        "anchor": lambda: (
            f"https://docs.dev/{one}/{two}-{three}#{one}-{m.draw(NONZERO, 2)} and https://youtu.be/{m.draw(URL, 11)}"
        ),
        "address": lambda: (
            f"sam@mail.{two}.dev to {three}+{m.draw(NONZERO, 3)}@lists.dev: git@github.com:{one}/{two}.git"
        ),
    }
    kind = m.pick(*choices)
    return kind, choices[kind]()


def _uuid(m: Maker) -> str:
    return "-".join(m.draw(HEX, size) for size in (8, 4, 4, 4, 12))


def harmless(count: int, seed: int) -> list[tuple[str, str]]:
    """Return the kind and text of this many lookalikes."""
    maker = Maker(seed)
    return [_harmless(maker) for _ in range(count)]
