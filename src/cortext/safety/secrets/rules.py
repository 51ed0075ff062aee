"""The kinds of secrets that are recognised by their form, one entry each, with a value that proves the entry.

`literals`: every such secret contains one of them; a text without them is not searched further. A literal without a
space is only searched in long words (12 characters and more). `folded`: the literals are in lower case here, and found
in any case. `least`: how long a word must be for a pattern that cannot match a space. `pattern`: the secret, or its
group `s` (an optional group `b` is where it begins); written so that no input makes it slow: bounded, possessive, a
literal first. `check`: what else must be true of it. The values are assembled from pieces, so that no scanner takes
this file for a leak; none of them was ever a real key.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from cortext.safety.secrets import checks
from cortext.safety.secrets.checks import Check


class Rule(NamedTuple):
    """One kind of secret, or one form of it."""

    kind: str
    literals: tuple[str, ...]
    pattern: str
    value: str
    check: Check = checks.meant
    folded: bool = False
    least: int = 12


def _known(kind: str, prefix: str, body: str, value: str, check_: Check = checks.meant) -> Rule:
    """Return the rule for a key with a prefix of its own: the most common form."""
    return Rule(kind, (prefix,), re.escape(prefix) + body, prefix + value, check_)


def _option(commands: str, literals: tuple[str, ...], option: str, value: str) -> Rule:
    """Return the rule for the password that follows an option of these commands."""
    pattern = rf" {option}{_QUOTE}{_ARGUMENT}"
    after, folded = checks.after(rf"\b(?:{commands})\s"), " " not in literals[0]
    return Rule("command-password", literals, pattern, value, after, folded)


_W = "[A-Za-z0-9_-]"
_A = "[A-Za-z0-9]"
_X = "[0-9a-f]"
_END = r"(?![A-Za-z0-9])"
_ENDW = r"(?![A-Za-z0-9_-])"
_MIX = "t8KqZr3Vn1XwLd9PmYc5Hs2JfBgE7uAaT4RoQ0xKd7bWj6" * 4
_HEX = "9f3ab07c52de41b86a1d" * 8
_WORD = "kT9mZqXw2R"
_B58 = "[1-9A-HJ-NP-Za-km-z]"
# What a shell, JSON and source code put around a value; what separates the words of a command.
_QUOTE = r"\\{0,3}[\"'`]?"
_BLANK = r"(?:[ \t]|[\\`](?:\r?\n|\\{1,2}n)){1,8}"
_BREAK = r"(?:\r?\n|\\{1,2}n)"
_VALUE = r"(?:[^\s\"'\\]|\\(?![\\\"'nrt]))"
_ARGUMENT = rf"(?P<s>(?!-){_VALUE}{{4,200}})"
_USER = r"(?:(?<![\w.$-])[A-Za-z_][\w.-]{0,40}|(?<=\\[nt])[A-Za-z_][\w.-]{0,40}|\$\{?\w{1,40}\}?)"
# Atomic groups and not `*+`: Python 3.11.2 continues wrongly after a group that matched in part.
# What separates the lines of a quoted key block: escapes, indentation, line numbers, diff markers, string syntax.
_GAP = r"(?>(?:\\+[nrt]|[\s\"'+,>|\\]|[0-9]{1,6}(?:→|\t|: ))*)"
_KEY_BLOCK = (
    r"-----BEGIN (?:[A-Z0-9]{2,12} ){0,3}(?:PRIVATE KEY(?: BLOCK)?|OpenVPN Static key V1)-----"
    rf"(?>(?:{_GAP}(?:Proc-Type|DEK-Info|Version|Comment|Charset|Hash): ?[^\n\\]{{0,120}})*)"
    rf"(?>(?:{_GAP}[A-Za-z0-9/][A-Za-z0-9+/=]{{15,}}+)+)"
    rf"(?:{_GAP}(?:[A-Za-z0-9+/]{{1,76}}={{1,2}}|[A-Za-z0-9+/]{{1,19}}(?={_GAP}-----END)))?"
    rf"(?:{_GAP}=[A-Za-z0-9+/]{{4}}(?={_GAP}-----END))?(?:{_GAP}-----END [A-Za-z0-9 ]{{3,40}}-----)?"
)

RULES: tuple[Rule, ...] = (
    # Key material
    Rule(
        "private-key",
        ("PRIVATE KEY", "OpenVPN Static"),
        _KEY_BLOCK,
        f"-----BEGIN RSA {'PRIVATE'} KEY-----\n{_MIX[:64]}\n{_MIX[:9]}==\n-----END RSA {'PRIVATE'} KEY-----",
        checks.whole,
    ),
    Rule(  # the same block encoded in base64 again, as in Kubernetes and CI settings
        "private-key",
        ("LS0tLS1CRUdJTi",),
        r"LS0tLS1CRUdJTi(?:BSU0EgUFJJVkFU|BQUklWQVRF|BFQyBQUklW|BPUEVOU1NIIFBSSVZB|BFTkNSWVBURUQgUFJJ|BEU0EgUFJJ)"
        r"[A-Za-z0-9+/=]{40,}+",
        "LS0tLS1CRUdJTi" + "BQUklWQVRFIEtFWS0tLS0tCk1JSUV2UUlCQURBTkJna3Foa2lHOXcwQkFRRUZBQVNDQktj",
        checks.whole,
    ),
    Rule(
        "private-key",
        ("Private-Lines:",),
        r"Private-Lines: [0-9]{1,3}\s{1,4}(?P<s>[A-Za-z0-9+/=]{40,}+(?>(?:\s{1,2}[A-Za-z0-9+/=]{40,}+)*))",
        f"Private-Lines: 1\n{_MIX[:64]}",
        checks.whole,
    ),
    _known("age-key", "AGE-SECRET-KEY-1", "[0-9A-Z]{50,64}+", "Q7XW3ZK9PLRT" * 5),
    # Clouds
    Rule(
        "aws-key-id",
        ("AKIA", "ASIA", "ABIA", "ACCA"),
        r"A(?:KIA|SIA|BIA|CCA)[A-Z0-9]{16}" + _END,
        "AKIA" + "Q3ZL7WNPX5RDK2TV",
    ),
    Rule(  # the secret has no mark of its own: forty characters of base64 shortly after the id
        "aws-secret-key",
        ("AKIA", "ASIA"),
        r"A(?:KIA|SIA)[A-Z0-9]{16}(?![A-Z0-9])[\s\S]{1,120}?(?<![A-Za-z0-9/+=_-])"
        r"(?P<s>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=_-])",
        "AKIA" + f"Q3ZL7WNPX5RDK2TV,{_MIX[:30]}/+{_MIX[:8]}",
        checks.mixed,
    ),
    _known("aws-bedrock-key", "ABSK", "[A-Za-z0-9+/]{100,}+={0,2}", _MIX[:112], checks.whole),
    _known("gcp-api-key", "AIza", f"{_W}{{35}}{_ENDW}", _MIX[:35]),
    _known("google-oauth-secret", "GOCSPX-", f"{_W}{{20,40}}+", _MIX[:28]),
    _known("google-oauth-token", "ya29.", "[A-Za-z0-9_.-]{20,}+", "a0AfB_" + _MIX[:60]),
    _known("google-refresh-token", "1//0", f"{_W}{{30,}}+", _MIX[:60]),
    Rule(
        "azure-key",
        ("AccountKey=", "AccessKey="),
        r"A(?:ccount|ccess)Key=(?P<s>[A-Za-z0-9+/]{32,128}+={0,2})",
        f"AccountName=shop;AccountKey={_MIX[:86]}==;EndpointSuffix=core.windows.net",
    ),
    Rule(
        "azure-key",
        ("JQQJ99",),
        # If one key runs into the next, match both.
        rf"JQQJ99(?<=(?P<b>{_A}{{52}})JQQJ99)(?:{_A}{{0,32}}?JQQJ99)*{_A}{{20,32}}+",
        f"{_MIX[:52]}JQQJ99{_MIX[:26]}",
    ),
    Rule(
        "azure-sas",
        ("sig=",),
        r"sig=(?P<s>(?:[A-Za-z0-9+/]|%[0-9A-Fa-f]{2}){40,100}+={0,2})",
        f"https://shop.blob.core.windows.net/a?sv=2024-11-04&sig={_MIX[:43]}%3D",
        checks.mixed,
    ),
    Rule(  # ends at the end of the word or where the next key begins; a lookahead, so that key is found too
        "azure-client-secret",
        ("Q~",),
        r"Q~(?<=(?P<b>[A-Za-z0-9_~.]{3}[0-9])Q~)(?=(?P<s>[A-Za-z0-9_~.-]{30,36}+(?![A-Za-z0-9_~-])"
        r"|(?=[A-Za-z0-9_~.-]{0,39}[0-9]Q~[A-Za-z0-9_~.-]{30})[A-Za-z0-9_~.-]{30,36}+))",
        f"xK78Q~{_MIX[:34]}",
    ),
    Rule(  # the signature AZDO precedes the last four of 84 characters
        "azure-devops-pat",
        ("AZDO",),
        rf"AZDO(?<=(?P<b>{_A}{{76}})AZDO){_A}{{4}}{_END}",
        f"{_MIX[:76]}AZDO{_MIX[:4]}",
    ),
    Rule(  # the older form has no signature: 52 characters of base32, so only next to its name
        "azure-devops-pat",
        ("pat", "PAT", "Pat"),
        r"[pP][aA][tT][\"']{0,2}\s{0,2}[:=]\s{0,2}[\"']{0,2}(?P<s>[a-z2-7]{52})(?![A-Za-z0-9])",
        f"AZURE_DEVOPS_EXT_PAT={('t7kqzr3vn5xwld2pmyc4hs6jfb' * 2)[:52]}",
    ),
    _known("alibaba-key-id", "LTAI", f"{_A}{{12,24}}+{_END}", _MIX[:20], checks.mixed),
    _known("aws-bedrock-key", "bedrock-api-key-", "[A-Za-z0-9+/_-]{40,}+={0,2}", _MIX[:120], checks.whole),
    _known("cloudflare-key", "v1.0-", f"{_X}{{24}}-{_X}{{140,160}}+{_END}", f"{_HEX[:24]}-{_HEX[:146]}"),
    Rule("digitalocean-token", ("_v1_",), f"do[opr]_v1_{_X}{{40,80}}+", f"dop_v1_{_HEX[:64]}"),
    # Code hosts and package registries
    Rule(
        "github-token",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        r"g(?:h[pousr]_[A-Za-z0-9]{30,255}+|ithub_pat_[A-Za-z0-9_]{36,255}+)",
        f"github_pat_{_MIX[:22]}_{_MIX[:59]}",
        checks.random,
    ),
    Rule(
        "gitlab-token",
        ("glpat-", "gldt-", "glrt", "glcbt-", "glptt-", "glft-", "glimt-", "glagent-", "gloas-", "glsoat-", "glffct-"),
        r"gl(?:pat|dt|rtr?|cbt|ptt|ft|imt|agent|oas|soat|ffct)-[A-Za-z0-9_.=-]{16,300}+",
        f"glpat-{_MIX[:20]}",
    ),
    _known("gitlab-runner-token", "GR1348941", f"{_W}{{20,}}+", _MIX[:20]),
    _known("npm-token", "npm_", f"{_A}{{30,64}}+{_END}", _MIX[:36], checks.random),
    _known("pypi-token", "pypi-", f"{_W}{{48,}}+", "AgEIcHlwaS5vcmc" + _MIX[:90], checks.random),
    _known("rubygems-key", "rubygems_", f"{_X}{{48}}", _HEX[:48]),
    _known("docker-token", "dckr_", f"[po]at_{_W}{{20,}}+", "pat_" + _MIX[:27]),
    Rule(  # `auth` in ~/.docker/config.json, `_auth` in .npmrc: base64 of user:password
        "docker-auth",
        ('auth": ', "auth': ", "auth\\", 'auth"', "_auth=", "_auth = "),
        r"auth\\{0,2}[\"']{0,1}\s{0,4}[:=]\s{0,4}\\{0,2}[\"']{0,1}(?P<s>[A-Za-z0-9+/]{8,}+={0,2})",
        '{"auths": {"registry.internal": {"auth": "' + 'YXBwOmtUOW1acVh3MlI="}}}',
        checks.basic,
    ),
    _known("docker-auth", "eyJhdXRocyI6", "[A-Za-z0-9+/]{20,}+={0,2}", _MIX[:60], checks.whole),
    Rule(
        "atlassian-token",
        ("ATATT3", "ATCTT3", "ATBB"),
        rf"AT(?:[AC]TT3[A-Za-z0-9_=-]{{60,}}+|BB{_A}{{32}}{_END})",
        "ATATT3" + _MIX[:180],
        checks.random,
    ),
    _known("circleci-token", "CCIPAT_", f"{_A}{{10,30}}_{_X}{{40}}", f"{_MIX[:22]}_{_HEX[:40]}"),
    Rule("sonar-token", ("squ_", "sqp_", "sqa_"), f"sq[upa]_{_X}{{40}}{_END}", "squ_" + _HEX[:40]),
    # Models
    _known("anthropic-key", "sk-ant-", f"{_W}{{20,}}+", f"api03-{_MIX[:93]}AA"),
    _known("openrouter-key", "sk-or-", f"{_W}{{32,}}+", "v1-" + _HEX[:64]),
    _known(
        "openai-key",
        "sk-",
        rf"(?:(?:proj|svcacct|admin|service|None)-{_W}{{20,}}+|{_W}{{10,80}}T3BlbkFJ{_W}{{10,}}+|{_A}{{20,64}}+{_ENDW})",
        f"proj-{_MIX[:74]}T3BlbkFJ{_MIX[:74]}",
        checks.random,
    ),
    Rule(
        "huggingface-token",
        ("hf_", "api_org_"),
        f"(?:hf|api_org)_{_A}{{30,48}}+{_END}",
        "hf_" + "tKqZrVnXwLdPmYcHsJfBgEuAaTRoQbNxWk",
        checks.random,
    ),
    _known("groq-key", "gsk_", f"{_A}{{40,64}}+", _MIX[:52], checks.random),
    _known("xai-key", "xai-", f"{_A}{{60,100}}+", _MIX[:80], checks.random),
    _known("perplexity-key", "pplx-", f"{_A}{{40,64}}+", _MIX[:48], checks.random),
    _known("replicate-token", "r8_", f"{_A}{{36,40}}+{_END}", _MIX[:37], checks.random),
    _known("nvidia-key", "nvapi-", f"{_W}{{40,}}+", _MIX[:64]),
    _known("langsmith-key", "lsv2_", f"(?:pt|sk)_{_X}{{32}}_{_X}{{10}}", f"pt_{_HEX[:32]}_{_HEX[:10]}"),
    _known("pinecone-key", "pcsk_", "[A-Za-z0-9_]{40,}+", _MIX[:70]),
    # Messaging, mail, payments
    Rule(
        "slack-token",
        ("xox", "xapp-", "xwfp-"),
        r"x(?:ox[abcdeoprs](?:\.xox[bp])?|app|wfp)-[A-Za-z0-9%][A-Za-z0-9%-]{12,}+",
        "xoxb" + f"-4827193650-7193648205173-{_MIX[:24]}",
        checks.numbered,
    ),
    Rule(
        "webhook",
        ("hooks.slack.com/", ".webhook.office.com/", "hooks.zapier.com/"),
        r"(?:hooks\.slack\.com/(?:services|workflows|triggers)|\.webhook\.office\.com/webhookb2"
        r"|hooks\.zapier\.com/hooks/catch)/(?P<s>[A-Za-z0-9/@_-]{16,}+)",
        "https://hooks.slack.com/services" + f"/T4QZ7WNPX/B5RDK2TVM8L/{_MIX[:24]}",
    ),
    _known(
        "discord-webhook", "/api/webhooks/", f"[0-9]{{15,20}}/(?P<s>{_W}{{40,}}+)", "928374650192837465/" + _MIX[:68]
    ),
    Rule(
        "discord-token",
        (".",),
        rf"[MNO]{_W}{{22,27}}+\.{_W}{{6}}\.{_W}{{27,40}}+(?![A-Za-z0-9_.-])",
        f"MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.{_MIX[:27]}",
        checks.random,
    ),
    Rule(
        "telegram-token",
        (":",),
        rf":(?<=[0-9]{{8}}:)(?P<s>{_W}{{34,36}}+){_ENDW}",
        f"7194826350:AA{_MIX[:33]}",
        checks.mixed,
    ),
    Rule(
        "stripe-key",
        ("sk_live_", "sk_test_", "rk_live_", "rk_test_", "sk_prod_", "rk_prod_"),
        r"[sr]k_(?:live|test|prod)_[A-Za-z0-9_]{16,}+",
        "sk_live_" + _MIX[:24],
        checks.random,
    ),
    _known("stripe-webhook-secret", "whsec_", "[A-Za-z0-9+/=]{24,}+", _MIX[:32], checks.random),
    _known("sendgrid-key", "SG.", rf"{_W}{{16,32}}+\.{_W}{{32,64}}+", f"{_MIX[:22]}.{_MIX[:43]}"),
    Rule("twilio-key", ("SK", "AC"), f"(?:SK|AC)[0-9a-z]{{32}}{_END}", "SK" + _HEX[:32], checks.numbered),
    _known("mailgun-key", "key-", f"{_X}{{32}}{_END}", _HEX[:32]),
    Rule("mailchimp-key", ("-us",), rf"-us(?<=(?P<b>{_X}{{32}})-us)[0-9]{{1,2}}{_END}", _HEX[:32] + "-us14"),
    _known("brevo-key", "xkeysib-", f"{_X}{{64}}-{_A}{{16}}", f"{_HEX[:64]}-{_MIX[:16]}"),
    Rule(
        "shopify-token",
        ("shpat_", "shpca_", "shppa_", "shpss_"),
        r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}" + _END,
        "shpat_" + _HEX[:32],
    ),
    Rule(
        "square-token",
        ("sq0", "EAAA"),
        f"(?:sq0(?:atp|csp|idp)-{_W}{{22,43}}+|EAAA{_W}{{60}}{_ENDW})",
        "sq0atp-" + _MIX[:22],
        checks.random,
    ),
    _known(
        "braintree-token",
        "access_token$",
        rf"(?:production|sandbox)\$[0-9a-z]{{16}}\${_X}{{32}}",
        f"production$t8kqzr3vn1xwld9p${_HEX[:32]}",
    ),
    _known("resend-key", "re_", f"{_A}{{6,12}}_{_A}{{18,30}}+{_END}", f"{_MIX[:8]}_{_MIX[:24]}", checks.mixed),
    # Team services and hosting
    _known("notion-token", "ntn_", f"{_A}{{40,50}}+", "48271936508" + _MIX[:35], checks.random),
    _known("notion-token", "secret_", f"{_A}{{43}}{_END}", _MIX[:43], checks.mixed),
    _known("linear-key", "lin_api_", f"{_A}{{32,48}}+", _MIX[:40], checks.random),
    _known("figma-token", "figd_", f"{_W}{{36,}}+", _MIX[:40]),
    _known("airtable-token", "pat", rf"{_A}{{14}}\.{_X}{{64}}", f"{_MIX[:14]}.{_HEX[:64]}"),
    _known("postman-key", "PMAK-", f"{_X}{{24}}-{_X}{{34}}", f"{_HEX[:24]}-{_HEX[:34]}"),
    Rule("new-relic-key", ("NRAK-", "NRII-"), f"NR(?:AK|II)-{_W}{{27,32}}+", "NRAK-" + "T8KQZR3VN1XWLD9PMYC5HS2JFBG"),
    Rule(
        "grafana-token",
        ("glsa_", "glc_"),
        rf"gl(?:sa_{_A}{{32}}_[A-Fa-f0-9]{{8}}|c_[A-Za-z0-9+/]{{32,}}+={{0,3}})",
        f"glsa_{_MIX[:32]}_{_HEX[:8]}",
        checks.random,
    ),
    Rule(
        "sentry-token",
        ("sntrys_", "sntryu_"),
        f"sntry(?:u_{_X}{{64}}|s_[A-Za-z0-9+/=_-]{{40,}}+)",
        "sntryu_" + _HEX[:64],
    ),
    Rule(
        "posthog-key",
        ("phx_", "phs_", "pha_", "phr_"),
        f"ph[xsar]_{_A}{{40,64}}+{_END}",
        "phx_" + _MIX[:43],
        checks.random,
    ),
    Rule(
        "sourcegraph-token",
        ("sgp_",),
        f"sgp_(?:(?:[a-fA-F0-9]{{16}}|local)_)?[a-fA-F0-9]{{40}}{_END}",
        f"sgp_{_HEX[:16]}_{_HEX[:40]}",
    ),
    Rule("sourcegraph-token", ("slk_", "sgd_"), f"(?:slk|sgd)_[a-f0-9]{{40,64}}+{_END}", "slk_" + _HEX[:64]),
    Rule("easypost-key", ("EZAK", "EZTK"), f"EZ[AT]K{_A}{{54}}{_END}", "EZAK" + _MIX[:54], checks.random),
    Rule("vault-token", ("hvs.", "hvb.", "hvr."), rf"hv[sbr]\.{_W}{{24,}}+", "hvs." + _MIX[:90]),
    Rule(
        "terraform-token",
        (".atlasv1.",),
        rf"\.atlasv1\.(?<=(?P<b>{_A}{{14}})\.atlasv1\.)[A-Za-z0-9_=-]{{60,70}}+",
        f"{_MIX[:14]}.atlasv1.{_MIX[:64]}",
    ),
    _known("doppler-token", "dp.", rf"(?:pt|st|ct|sa|scim)\.(?:[a-z0-9_-]{{2,35}}\.)?{_A}{{40,44}}", "pt." + _MIX[:43]),
    _known("databricks-token", "dapi", f"{_X}{{32}}(?:-[0-9])?{_END}", _HEX[:32]),
    _known("pulumi-token", "pul-", f"{_X}{{40}}{_END}", _HEX[:40]),
    _known("planetscale-token", "pscale_", "(?:tkn|oauth|pw)_[A-Za-z0-9_.-]{32,64}+", "tkn_" + _MIX[:43]),
    Rule("supabase-token", ("sbp_", "sb_secret_"), f"sb(?:p_{_X}{{40}}|_secret_{_W}{{20,}}+)", "sbp_" + _HEX[:40]),
    Rule(
        "netlify-token",
        ("nfp_", "nfc_", "nfo_", "nfu_"),
        f"nf[pcou]_{_A}{{36}}{_END}",
        "nfp_" + _MIX[:36],
        checks.random,
    ),
    Rule("fly-token", ("fo1_", "fm2_"), f"f(?:o1_{_W}{{43}}|m2_[A-Za-z0-9+/=,_-]{{80,}}+)", "fo1_" + _MIX[:43]),
    _known("tailscale-key", "tskey-", f"[a-z]{{3,10}}-{_A}{{8,24}}-{_A}{{20,40}}", f"auth-{_MIX[:12]}-{_MIX[:32]}"),
    _known("1password-token", "ops_eyJ", "[A-Za-z0-9+/=_-]{100,}+", _MIX[:160], checks.whole),
    _known("heroku-key", "HRKU-", f"{_W}{{36,}}+", "AA" + _MIX[:58]),
    _known(
        "hubspot-token",
        "pat-",
        rf"(?:na|eu)[0-9]-{_X}{{8}}(?:-{_X}{{4}}){{3}}-{_X}{{12}}",
        "na1-9f3ab07c-52de-41b8-9f3a-b07c52de41b8",
    ),
    _known("openshift-token", "sha256~", f"{_W}{{43}}{_ENDW}", _MIX[:43]),
    # Forms shared by many programs
    Rule(
        "jwt",
        ("eyJ",),
        rf"eyJ(?:(?<![A-Za-z0-9]eyJ)|(?<=\\[nrt]eyJ)|(?<=%[0-9A-F][0-9A-F]eyJ)){_W}{{8,1500}}+(?:\.{_W}{{8,}}+){{2,4}}+",
        f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiI3MTk0ODI2In0.{_MIX[:43]}",
        checks.whole,
    ),
    Rule(
        "url-password",
        ("://",),
        r"://(?P<user>[^\s/:@?#\"'<>`\\]{0,100}):(?P<s>[^\s/@\"'<>`\\][^\s/\"'<>`\\]{2,200})(?<!@)@(?=[A-Za-z0-9\[.$_-])",
        f"postgresql://app:{_WORD}@db.internal:5432/shop",
        checks.url,
    ),
    Rule(  # a slash in the password, or a hash: invalid, but it occurs; a port and a path must not look like one
        "url-password",
        ("://",),
        r"://(?P<user>[^\s/:@?#\"'<>`\\]{0,100}):(?P<s>(?![0-9]{1,5}[/?#])(?:/[^\s\"'<>`\\/]{3,80}"
        r"|[^\s/:\"'<>`\\?#]{1,80}+[/?#][^\s\"'<>`\\]{0,160}))@(?=\[[0-9A-Fa-f:.]{2,45}\]|\$"
        r"|[A-Za-z0-9][\w-]{0,60}(?:\.[A-Za-z0-9-]{1,60}){0,6}(?![\w@-]))",
        f"mysql://app:kT@9m/{_WORD}@db.internal:3306/shop",
        checks.url_with_signs,
    ),
    Rule(
        "url-token",
        ("://",),
        rf"://(?P<s>{_W}{{20,255}}+)(?::x-oauth-basic)?@(?![^\s/]{{0,80}}sentry)",
        "https://" + _MIX[:24] + "@git.internal/team/app.git",
        checks.random,
    ),
    Rule(
        "basic-auth",
        ("asic ",),
        r"asic\s{1,4}(?P<s>[A-Za-z0-9+/]{8,}+={0,2})",
        "Authorization: Basic " + "YXBwOmtUOW1acVh3MlI=",
        checks.basic,
    ),
    _known(
        "netrc-password",
        "login ",
        r"\s{0,8}\S{1,100}\s{1,8}password\s{1,8}(?P<s>\S{4,200})",
        f"deploy password {_WORD}",
        checks.chosen,
    ),
    Rule(
        "pgpass-password",
        (":5432:",),
        r":5432:[A-Za-z0-9_*-]{1,63}:[A-Za-z0-9_-]{1,63}:(?P<s>[^\s:]{4,200})",
        f"db.internal:5432:shop:app:{_WORD}",
        checks.password,
    ),
    Rule(
        "command-password",
        (" -u", " --"),
        rf" -(?:u|-user|-proxy-user|-auth)[ =]{{0,3}}{_QUOTE}[^\s:\"'@/\\]{{1,64}}:(?P<s>(?![:/@]){_VALUE}{{4,200}})",
        f"curl -sS -u deploy:{_WORD} https://api.internal/v1/items",
        checks.after(r"\b(?:curl|wget|https?) "),
    ),
    _option("mysql(?:dump|admin)?|mariadb(?:-dump)?|sshpass", (" -p",), "-p", f"mysql -u root -p{_WORD} shop"),
    _option(
        "sshpass|redis-cli|(?:docker|podman) login|helm registry login|mongosh|az login|rabbitmqadmin",
        (" -p", " -a "),
        "-[pa] {1,3}",
        f"redis-cli -h cache.internal -a {_WORD} ping",
    ),
    _option(
        "(?:un)?zip",
        ("zip",),
        rf"-[0-9A-OQ-Za-z]{{0,6}}P[ =]{{0,3}}(?!{_VALUE}{{1,80}}\.(?:zip|jar|war|apk|epub)\b)",
        f"zip -r -P {_WORD} out.zip notes",
    ),
    _option(
        "ldap(?:search|modify|add|delete|whoami|passwd|modrdn|compare)",
        ("ldap",),
        "-[A-Za-vx-z]{0,6}w {0,3}",
        f"ldapsearch -x -D cn=admin,dc=pond -w {_WORD} -b dc=pond",
    ),
    _option("ldappasswd", ("ldappasswd",), "-[A-Zb-rt-z]{0,6}[as] {0,3}", f"ldappasswd -x -s {_WORD} cn=app"),
    _known("command-password", " pass:", r"(?P<s>[^\s\"']{4,200})", _WORD, checks.password),
    _known(
        "command-password",
        "auth=(",
        r"[\"'][^\"'\s]{0,64}[\"'], {0,2}[\"'](?P<s>[^\"'\s]{4,200})[\"']",
        f"'app', '{_WORD}')",
        checks.password,
    ),
    Rule(
        "sql-password",
        ("dentified ", "DENTIFIED "),
        r"[dD](?i:entified\s(?:with\s[\"'`]?\w{1,40}[\"'`]?\s)?by)\s{1,4}(?P<q>[\"'`])(?P<s>[^\"'`\s]{4,200})(?P=q)",
        f"CREATE USER app IDENTIFIED BY '{_WORD}';",
        checks.chosen,
    ),
    # Session cookies: whoever has one is logged in
    Rule(
        "session-cookie",
        ("SESSID", "SESSIONID", "SessionId", "connect.sid", "_session="),
        r"(?:PHPSESSID|JSESSIONID|ASP\.NET_SessionId|connect\.sid|[A-Za-z0-9]{2,30}_session)=(?P<s>[A-Za-z0-9%._~+/-]{16,512}+)",
        f"laravel_session={_MIX[:40]}",
        checks.random,
    ),
    Rule(
        "session-cookie",
        ("ookie: ", 'ookie": ', "ookie': ", "ookie:", 'ookie"'),
        r"[cC]ookie[\"']?:\s{0,2}[\"']?(?:[^\s;=,\"']{1,60}=[^\s;,\"']{0,300};\s?){0,12}?"
        r"[\w.-]{0,40}(?:sess|sid|auth|token|remember|login)[\w.-]{0,20}=(?P<s>[A-Za-z0-9%._~+/=:-]{16,1024}+)",
        f"Cookie: theme=dark; sessionid={_MIX[:32]}; lang=en",
    ),
    Rule(
        "command-password",
        ("add_user ", "change_password ", "authenticate_user "),
        rf"(?:add_user|change_password|authenticate_user){_BLANK}(?:--{_BLANK})?{_QUOTE}[^\s\"'\\]{{1,64}}{_QUOTE}"
        rf"{_BLANK}(?:--{_BLANK})?{_QUOTE}{_ARGUMENT}",
        f"rabbitmqctl add_user app {_WORD}",
        checks.after(r"\brabbitmqctl\s"),
    ),
    Rule(  # through a pipe: perhaps as another user, with a path, in a container
        "command-password",
        (" chpasswd", "|chpasswd", "/chpasswd"),
        rf"{_USER}:(?P<s>[^\s\"'|\\]{{4,200}}+)(?:{_BREAK}[^\s\"'|\\]{{0,200}}+){{0,5}}{_QUOTE}[\s\\]{{0,12}}\|[\s\\]{{0,12}}"
        rf"(?:[^\s|;&]{{1,80}}\s{{1,4}}){{0,8}}?{_QUOTE}(?:/?(?:[\w.-]{{1,30}}/){{1,6}})?chpasswd",
        f"echo 'root:{_WORD}' | chpasswd",
        checks.password,
    ),
    Rule(
        "command-password",
        ("chpasswd <", "chpasswd -", "/chpasswd"),
        rf"chpasswd[^\n<]{{0,60}}<<<\s{{0,4}}\$?{_QUOTE}{_USER}:(?P<s>{_VALUE}{{4,200}})",
        f"chpasswd <<< 'root:{_WORD}'",
        checks.password,
    ),
    Rule(
        "command-password",
        (" chpasswd", "|chpasswd", "chpasswd <", "chpasswd -", "/chpasswd"),
        rf"{_BREAK}(?:[ \t]{{0,8}}[0-9]{{1,6}}(?:→|\t|: ))?(?:[ \t]|\\{{1,2}}t){{0,8}}{_USER}:(?P<s>{_VALUE}{{4,200}})",
        f"chpasswd <<EOF\nroot:{_WORD}\nEOF",
        checks.heredoc("chpasswd"),
    ),
    Rule(  # as an argument, at any place among the others
        "command-password",
        ("convertto-securestring",),
        rf"(?i:convertto-securestring)(?:(?:{_BLANK}-[A-Za-z]{{1,14}}){{0,4}}{_BLANK}"
        rf"|(?:{_BLANK}-[A-Za-z]{{1,14}}){{1,4}}:[ ]{{0,2}}){_QUOTE}"
        r"(?P<s>(?<=[\"'])[^\"'\n]{4,200}?(?=\\{0,3}[\"'])|(?<![\"'])[^\s\"'`$(){}|;,<>@\\-][^\s\"'`|;(){}<>\\]{3,200})",
        f'ConvertTo-SecureString "{_WORD}" -AsPlainText -Force',
        checks.argument,
        folded=True,
    ),
    Rule(  # through a pipe
        "command-password",
        ("convertto-securestring",),
        r"[\"'](?P<s>[^\"'\n]{4,200}?)\\{0,3}[\"'][\s`]{0,8}\|(?:[\s`]|\\{1,2}n){0,8}(?i:convertto-securestring)",
        f'"{_WORD}" | ConvertTo-SecureString -AsPlainText -Force',
        checks.password,
        folded=True,
    ),
    Rule(  # the variable's name announces the value, lines later
        "terraform-default",
        ("variable ",),
        r"default(?:(?<![\w-]default)|(?<=\\[nrt]default))[ \t]{0,20}=[ \t]{0,20}\\{0,3}"
        r"\"(?P<s>[^\"\\\n]{4,200})\\{0,3}\"",
        f'variable "db_password" {{\n  type    = string\n  default = "{_WORD}"\n}}',
        checks.block(r"variable[ \t]{1,8}\\{0,3}\"?(?P<name>[\w.-]{1,64})\\{0,3}\"?\s{0,8}$"),
    ),
    Rule(  # the same in JSON, as in `.tf.json` and in schemas
        "terraform-default",
        ('default": ', 'default":"', "default\\"),
        r"default\\{0,3}\"\s{0,4}:\s{0,4}\\{0,3}\"(?P<s>[^\"\\\n]{4,200})\\{0,3}\"",
        f'{{"variable": {{"db_password": {{"type": "string", "default": "{_WORD}"}}}}}}',
        checks.block(r"\"(?P<name>[\w.-]{1,64})\\{0,3}\"\s{0,4}:\s{0,8}$"),
    ),
    Rule(  # an attribute whose name follows: elsewhere `words` reads the name first
        "xml-value",
        ('value="', "value='", 'value=\\"'),
        r"value=\\{0,3}[\"'](?P<s>[^\"'<>\s\\]{4,200})\\{0,3}[\"'](?:\s{1,20}[\w:.-]{1,40}=\\{0,3}[\"'][^\"'<>]{0,100}[\"']){0,4}?"
        r"\s{1,20}(?:key|name|id)=\\{0,3}[\"'](?P<name>[\w:. -]{1,80})\\{0,3}[\"']",
        f'<add value="{_WORD}" key="ApiKey" />',
        checks.named,
    ),
    # Wallets: extended keys, single keys, and seed phrases
    Rule(
        "wallet-key",
        ("xprv", "yprv", "zprv", "tprv", "uprv", "vprv", "Yprv", "Zprv", "Uprv", "Vprv"),
        f"[xyztuvYZUV]prv{_B58}{{107,108}}{_END}",
        "xprv9" + (_MIX * 2).replace("0", "").replace("l", "")[:106],
        checks.whole,
    ),
    Rule(
        "wallet-key",
        ("5H", "5J", "5K", "K", "L", "9", "c"),
        f"(?:5[HJK]{_B58}{{49}}|9{_B58}{{50}}|[KLc]{_B58}{{51}}){_END}",
        "5HueCGU8rMjxEXxiPuD5BDku4Mk" + "FqeZyd4dZ1jvhTVqvbTLvyTJ",
        checks.wallet_key,
        least=51,
    ),
    Rule(
        "seed-phrase",
        ("eed ", "eed: ", "nemonic ", "nemonic: ", "ecovery ", "EED ", "NEMONIC ", "nemonic=", "hrase: "),
        r"(?:[sS]eed|SEED|[mM]nemonic|MNEMONIC|[rR]ecovery|RECOVERY)[ _-]?(?i:phrase|words?|mnemonic|key)?"
        r"[\"'*]{0,3}(?: is| was)?\s{0,2}[:=]?\s{0,2}[\"'*`]{0,3}"
        r"(?P<s>[a-z]{3,8}(?P<joint> |, ?|\n)(?:[a-z]{3,8}(?P=joint)){10,22}[a-z]{3,8})(?![a-z])",
        "seed phrase: " + "velvet harbor quartz tumble osprey cobalt marmot zephyr lunar basket fossil ginger",
        checks.seed_words,
    ),
)
