"""An exported file that only a passphrase opens: AES-256-GCM, with a key that is slow to derive (PBKDF2).

The page derives the key with the browser's own WebCrypto. The wrong passphrase decrypts nothing and shows nothing.
"""

from __future__ import annotations

import base64
import hashlib
import os
from functools import cache
from importlib.resources import files

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from cortext.web.html.document import style
from cortext.web.html.templates import environment

ITERATIONS = 600_000  # of PBKDF2 with SHA-256: what OWASP advises
_KEY, _SALT, _NONCE = 32, 16, 12  # bytes


@cache
def _script() -> str:
    return files("cortext.web.html").joinpath("static", "sealed.js").read_text("utf-8")


def policy(script: str) -> str:
    """Return the content security policy of a file with exactly this script."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def sealed(page: str, passphrase: str) -> str:
    """Return a file that asks for the passphrase and then shows the page."""
    salt, nonce = os.urandom(_SALT), os.urandom(_NONCE)
    key = hashlib.pbkdf2_hmac("sha256", passphrase.encode(), salt, ITERATIONS, _KEY)
    ciphertext = AESGCM(key).encrypt(nonce, page.encode("utf-8", "replace"), None)
    fields = {"salt": salt, "nonce": nonce, "ciphertext": ciphertext}
    encoded = {name: base64.b64encode(data).decode() for name, data in fields.items()}
    # Of what is in the file anyway: it tells a damaged file from a wrong passphrase.
    digest = hashlib.sha256(".".join([str(ITERATIONS), *encoded.values()]).encode()).hexdigest()
    script = _script()
    template = environment().get_template("html/sealed.html")
    return template.render(
        style=style(),
        script=script,
        policy=policy(script),
        iterations=ITERATIONS,
        digest=digest,
        **encoded,
    )
