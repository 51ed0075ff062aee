"""Builds the package and checks that a release is ready: `bin/release-check`."""

from __future__ import annotations

import ast
import io
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from datetime import date, timedelta
from email import message_from_bytes
from email.message import Message
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import unquote, urljoin, urlsplit
from urllib.request import Request, urlopen

from cortext import distribution
from cortext.services.cost.prices import Prices, PriceSource

REPOSITORY = Path(__file__).resolve().parents[2]
PRICES_VALID = timedelta(days=60)  # vendors change prices every few months


def build(target: Path) -> tuple[Path, Path]:
    """Build the sdist, and the wheel from it, without a network; return their paths."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(target), str(REPOSITORY)]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    (sdist,) = target.glob("*.tar.gz")
    (wheel,) = target.glob("*.whl")
    return sdist, wheel


def project() -> dict[str, Any]:
    """Return the `[project]` table."""
    table: dict[str, Any] = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return table


def problems(version: str, changelog: str, urls: dict[str, str]) -> list[str]:
    """Return what is not ready for a release of this version."""
    found = []
    headings = re.findall(r"^## (.+)$", changelog, re.MULTILINE)
    if headings[:1] != ["Unreleased"]:
        found.append("CHANGELOG.md does not begin with an Unreleased section")
    if not any(re.fullmatch(rf"{re.escape(version)} \(\d{{4}}-\d\d-\d\d\)", heading) for heading in headings):
        found.append(f"CHANGELOG.md has no section '{version} (YYYY-MM-DD)'")
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        found.append(f"the version {version!r} is not X.Y.Z")
    found += [
        f"[project.urls] {name} is a placeholder: {url}"
        for name, url in urls.items()
        if re.match(r"https?://[^/]*\.example(/|$)", url)
    ]
    return found


def old_prices(sources: list[PriceSource], today: date) -> list[str]:
    """Return the vendors whose prices are too old for a release."""
    oldest = (today - PRICES_VALID).isoformat()
    return [
        f"the prices of {source.vendor} are of {source.as_of}: compare them with {source.source}"
        for source in sources
        if source.as_of < oldest
    ]


class _Links(HTMLParser):
    """The files of a project on an index's page in HTML, the newest last."""

    def __init__(self) -> None:
        super().__init__()
        self.files: list[dict[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        fields = {name: value or "" for name, value in attrs}
        if tag == "a" and "href" in fields:
            name = unquote(urlsplit(fields["href"]).path.rpartition("/")[2])
            uploaded = fields.get("data-upload-time", "")
            self.files.append({"filename": name, "url": fields["href"], "upload-time": uploaded})


def index() -> str:
    """Return the address of the index that `pip install` asks here; OSError if pip cannot read its configuration."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise OSError(f"pip cannot read its configuration: {done.stderr.strip()}")
    return configured_index(done.stdout) or str(import_module("pip._internal.models.index").PyPI.simple_url)


def configured_index(listed: str) -> str:
    """Return the index in the output of `pip config list`; empty if it names none.

    pip has merged its files; what is left is its order of sections: the environment, the command, all commands. An
    empty value does not count. `pip download` is asked last: `pip install` does not read its section.
    """
    lines = (line.partition("=") for line in listed.splitlines())
    values = {key: str(ast.literal_eval(value)) for key, _, value in lines if key.endswith((".index-url", ".pypi-url"))}
    sections = (":env:", "install", "global", "download")
    found = (values.get(f"{section}.{name}") for section in sections for name in ("index-url", "pypi-url"))
    return next(filter(None, found), "")


def owner(address: str, name: str) -> Message | None:
    """Return the metadata of the newest file of a project on an index; None if the name is free.

    Not by `pip index`, which shows nothing of a project that needs a newer Python than this one.
    """
    page = f"{address.rstrip('/')}/{name}/"
    try:
        kind, body = _get(page, accept="application/vnd.pypi.simple.v1+json, text/html;q=0.1")
    except HTTPError as error:
        if error.code == 404:
            return None
        raise
    if "json" in kind:
        files = json.loads(body)["files"]
    else:
        links = _Links()
        links.feed(body.decode("utf-8"))
        files = links.files
    if not files:
        return Message()  # registered, without a file
    newest = max(enumerate(files), key=lambda each: (each[1].get("upload-time") or "", each[0]))[1]
    url = urljoin(page, newest["url"])
    try:
        return message_from_bytes(_get(url.partition("#")[0] + ".metadata")[1])
    except HTTPError:
        return message_from_bytes(_metadata_inside(newest["filename"], _get(url)[1]))


def _get(url: str, accept: str = "*/*") -> tuple[str, bytes]:
    with urlopen(Request(url, headers={"Accept": accept}), timeout=60) as answer:
        return answer.headers.get("Content-Type", ""), answer.read()


def _metadata_inside(name: str, data: bytes) -> bytes:
    """Return the metadata in a wheel or an sdist."""
    if name.endswith((".whl", ".zip")):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            inside = next(each for each in archive.namelist() if each.endswith(("/METADATA", "/PKG-INFO")))
            return archive.read(inside)
    with tarfile.open(fileobj=io.BytesIO(data)) as sdist:
        member = next(
            each for each in sdist.getmembers() if each.name.count("/") == 1 and each.name.endswith("/PKG-INFO")
        )
        file = sdist.extractfile(member)
        assert file is not None
        return file.read()


def not_ours(found: Message | None, name: str, urls: dict[str, str]) -> list[str]:
    """Return why we cannot publish under a name: its project on the index names none of our addresses."""
    if found is None:
        return []
    theirs = {each.partition(",")[2].strip() for each in found.get_all("Project-URL", [])} | {
        found.get("Home-page", "")
    }
    if theirs & set(urls.values()):
        return []
    shown = f"{found.get('Name', name)} {found.get('Version', '')}: {found.get('Summary', 'no file')}".strip()
    return [f"the name {name} on the index belongs to another project ({shown}): take another one"]


def main() -> int:
    """Build into dist/ and report."""
    from cortext import __version__

    shutil.rmtree(REPOSITORY / "dist", ignore_errors=True)
    for path in build(REPOSITORY / "dist"):
        print(f"built {path.relative_to(REPOSITORY)}")
    changelog = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    found = problems(__version__, changelog, project()["urls"])
    found += old_prices(Prices().sources, date.today())
    try:
        found += not_ours(owner(index(), distribution.NAME), distribution.NAME, project()["urls"])
    except OSError as error:
        found.append(f"the index does not say who owns {distribution.NAME}: {error}")
    for problem in found:
        print(f"not ready: {problem}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
