"""What an error may say on the phone: the names of a machine go, and the words that help stay."""

from __future__ import annotations

import time

from cortext.agents.llm.connection import Fault
from cortext.agents.telegram.withheld import error_text, without_places
from cortext.errors import CortextError, ModelError
from cortext.testing.table import every_row


@every_row(
    ("said", "shown"),
    [
        # addresses
        ("no connection (http://[fd00::5]:8000/v1)", "no connection"),
        ("GET http://[::1]:80/x failed", "GET (address) failed"),
        ("http://ann:pw@[fd00::5]:8000/v1 failed", "(address) failed"),
        ("refused by 2001:db8::7", "refused by (address)"),
        ("2001:db8::7: refused", "(address): refused"),
        ("by 2001:db8:0:1:2:3:4:5, then ::1.", "by (address), then (address)."),
        ("by [fe80::1]:11434, fe80::1%eth0 and ::ffff:10.0.0.7", "by (address), (address) and (address)"),
        ("10.0.0.7:8080 and 192.168.0.1.", "(address) and (address)."),
        ("proxy.firma.de refused", "(address) refused"),
        ("cannot reach gateway.corp.", "cannot reach (address)."),
        ("vllm.svc.cluster.k8s: timeout", "(address): timeout"),
        ("https://api.firma.example/v1?key=x, retry", "(address), retry"),
        ("account ann.b@firma.de, gpu-box:8000", "account (address), (address)"),
        ("localhost:11434 refused", "(address) refused"),
        ("Host: xn--bcher-kva.xn--p1ai", "Host: (address)"),
        ("gateway.corp:8443/v1/chat said 502", "(address) said 502"),
        # paths
        ("cannot open /home/John Smith/My Models/llama.gguf", "cannot open (path)"),
        ("cannot open /home/John Smith/My Models/llama 3.gguf: denied", "cannot open (path): denied"),
        (r'cannot open "C:\Users\John Smith\x.bin"', 'cannot open "(path)"'),
        (r"cannot open C:\Users\John Smith\My Models\x.bin, denied", "cannot open (path), denied"),
        (r"'C:\\Users\\John Smith\\x.bin' is missing", "'(path)' is missing"),
        (r"\\server\share\My Folder\x.bin", "(path)"),
        ("no room in /srv or /tmp.", "no room in (path) or (path)"),
        ("'/srv' and \"/tmp\" (/var)", "'(path)' and \"(path)\" ((path))"),
        ("/home/John Smith: denied", "(path): denied"),
        ("cannot read /home/ann/my private notes: denied", "cannot read (path): denied"),
        ("cannot read /home/ann/2026-11 old chats: is a folder", "cannot read (path): is a folder"),
        ("/srv/models cannot be read: denied", "(path) cannot be read: denied"),
        ("/home/John's Models/x.bin is damaged", "(path) is damaged"),
        ("'/home/John's Models/x.bin' is damaged", "'(path)' is damaged"),
        ("file:///home/John Smith/x.bin is damaged", "(path) is damaged"),
        ("in ~/.ssh/id_rsa, ~ann/x and ../up/x", "in (path), (path) and (path)"),
        ("/srv/models failed for openai/gpt-4o", "(path) failed for openai/gpt-4o"),
        ("/srv/proxy.firma.de/x is full", "(path) is full"),
        # keys
        ('Incorrect key "QzT4...9xYw"', 'Incorrect key "(key)"'),
        ("Incorrect API key provided: QzT4…9xYw.", "Incorrect API key provided: (key)."),
        ("invalid api key AbCd1234EfGh5678", "invalid api key (key)"),
        ("api_key=abcd1234 is invalid", "api_key=(key) is invalid"),
        ("your key ending in 9xYw", "your key ending in (key)"),
        ("token 'QzTxYwKpLm' expired", "token '(key)' expired"),
        ("got AbCd1234EfGh5678IjKl", "got (key)"),
        ("id 550e8400-e29b-41d4-a716-446655440000", "id (key)"),
        ("provided: gsk_abc...wxyz, abc****wxyz", "provided: (key), (key)"),
        ("provided: 9f86d081884c7d659a2feaa0c55ad015", "provided: (key)"),
    ],
)
def test_addresses_paths_and_keys_are_withheld(said: str, shown: str) -> None:
    assert without_places(said) == shown


@every_row(
    "said",
    [
        "The model claude-3-5-sonnet-20241022 does not exist",
        "use claude-sonnet-4-5-20250929, not claude-opus-4-1-20250805",
        "gpt-4o-2024-08-06 and gpt-4o-mini-2024-07-18 and gpt-3.5-turbo-0125 and ChatGPT-4o-latest",
        "models/gemini-2.5-pro is not found",
        "gemini-2.0-flash-thinking-exp-01-21",
        "deepseek-r1-distill-llama-70b, deepseek/deepseek-r1:free",
        "meta-llama/Llama-3.3-70B-Instruct-Turbo and Meta-Llama-3.1-405B-Instruct-FP8",
        "Qwen/Qwen2.5-Coder-32B-Instruct-AWQ, qwen2.5:14b-instruct, qwen-max-2025-01-25",
        "mistral-large-2411, mixtral-8x7b-32768, open-mixtral-8x22b, WizardLM-2-8x22B",
        "accounts/fireworks/models/llama-v3p1-405b-instruct",
        "anthropic.claude-3-5-sonnet-20241022-v2:0 and us.amazon.nova-pro-v1:0 and amazon.titan-text-express-v1",
        "grok-2-1212, command-r-plus-08-2024, kimi-k2-0711-preview, glm-4.5-air, DeepSeek-R1-Distill-Qwen-1.5B",
        "llama3.1:8b, phi4:14b, text-embedding-3-large, nomic-embed-text-v1.5, gpt-oss-120b",
        "your key has no access to gpt-4o-2024-08-06",
        "HTTP 500: try later",
        "status:429, code:1234, line:42",
        "HTTP/1.1 404 Not Found",
        "no answer for 12.5 s, 3.5ms or 1h30m",
        "at 08:15:30, 2026-11-15T08:15:30Z",
        "e.g. a shorter one, i.e. and/or etc.",
        "version 3.5, 1.2.3, 2.0.dev and v1.beta",
        "Rate limit: 30000 tokens per min, 10 req/s, 30 requests /min, input/output, I/O, N/A, 24/7",
        "API key not valid. Please pass a valid API key.",
        "The key was not accepted. The token expired; the key 'messages' is missing",
        "Unexpected token < in JSON at position 0",
        "max_tokens:4096, token limit 128000, context_length_exceeded",
        "messages.1.content.0.text: field required",
        "httpx.ConnectError and json.decoder.JSONDecodeError in llama.cpp, tokenizer.json",
        "/sessions lists the sessions, '/retry' asks again, /resume_sess_1 resumes",
        "wait...then retry…",
        "not valid.Please pass another one",
        "You exceeded your current quota, please check your plan and billing details.",
        "the model `gpt-4o` is overloaded (try again in 20 s)",
    ],
)
def test_names_of_models_and_ordinary_words_stay(said: str) -> None:
    assert without_places(said) == said


def test_the_configured_model_keeps_a_name_that_looks_like_an_address() -> None:
    fault = Fault("ollama/hf.co/bartowski/Llama-3.2-3B-GGUF:11434", place="http://[fd00::5]:8000/v1")
    lost: ModelError = fault.no_connection("hf.co/bartowski/Llama-3.2-3B-GGUF:11434 at box.firma.de").error
    assert error_text(lost).startswith(
        "⚠ ollama/hf.co/bartowski/Llama-3.2-3B-GGUF:11434: no connection: "
        "hf.co/bartowski/Llama-3.2-3B-GGUF:11434 at (address)\n"
    )
    assert error_text(CortextError("proxy.firma.de/v1: refused")) == "⚠ (address): refused"


@every_row("piece", ["a.", "a:", "-a", "a", "/", "/a ", "'/", "[::", "*a", "…", "@", "key is ", "a_1"])
def test_a_long_error_takes_no_longer_than_its_length_allows(piece: str) -> None:
    started = time.process_time()
    without_places(piece * 5000)
    assert time.process_time() - started < 3
