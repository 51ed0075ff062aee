"""What an installation takes on disk, by package: the base, and the command of the README."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter

from bench.common import REPO

LIMITS = {"base": 110, "README": 150}  # MB
SHOWN = 8  # packages
_SIZES = """
import importlib.metadata as m, os, sys
counted = set()
for each in m.distributions():
    if each.metadata["Name"].lower() in ("pip", "setuptools"):
        continue
    for file in each.files or ():
        path = os.path.realpath(each.locate_file(file))
        if path not in counted and os.path.isfile(path):
            counted.add(path)
            print(each.metadata["Name"], os.stat(path).st_blocks * 512)
"""


def readme_command() -> list[str]:
    """Return the arguments of `pip install` that the README tells."""
    with open(os.path.join(REPO, "README.md"), encoding="utf-8") as file:
        (line,) = re.findall(r"^pip install (.+?)\s*(?:#.*)?$", file.read(), re.MULTILINE)
    return str(line).replace("'", "").split()


def sizes(arguments: list[str]) -> tuple[Counter[str], int]:
    """Return the bytes of each package that `pip install` installs, and of all compiled files."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        python = os.path.join(folder, "bin", "python")
        subprocess.run([python, "-m", "pip", "install", "-q", "--no-compile", *arguments], cwd=REPO, check=True)
        packages = _count(python)
        site = subprocess.run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], check=True,
                              capture_output=True, text=True).stdout.strip()  # fmt: skip
        subprocess.run([python, "-m", "compileall", "-q", site], check=False, capture_output=True)
        return packages, _compiled(site)


def _count(python: str) -> Counter[str]:
    done = subprocess.run([python, "-c", _SIZES], check=True, capture_output=True, text=True)
    packages: Counter[str] = Counter()
    for line in done.stdout.splitlines():
        name, size = line.split()
        packages[name] += int(size)
    return packages


def _compiled(site: str) -> int:
    total = 0
    for folder, _, names in os.walk(site):
        if os.path.relpath(folder, site).split(os.sep)[0] not in ("pip", "setuptools", "pkg_resources"):
            total += sum(os.stat(os.path.join(folder, name)).st_blocks * 512 for name in names if name.endswith(".pyc"))
    return total


def run_install_size() -> int:
    """What an installation takes on disk, by package: the base, and the command of the README.

        python -m bench install_size             # downloads the packages into two new environments
        python -m bench install_size '.[models]' # what this takes instead

    pip and setuptools, which a new environment has anyway, are not counted. The compiled files are counted apart: `pip
    install` makes them for every module, `--no-compile` and uv for none, and Python itself for those that are used.
    """
    if "--help" in sys.argv:
        print(inspect.getdoc(run_install_size))
        return 0
    status = 0
    given = {"base": ["."], "README": readme_command()} if len(sys.argv) < 2 else {"given": sys.argv[1:]}
    for name, arguments in given.items():
        packages, compiled = sizes(arguments)
        total = packages.total()
        words = " ".join(argument for argument in arguments if argument != "--no-compile")
        most = LIMITS.get(name, 0)
        limit = f" (limit {most} MB)" if most else ""
        print(f"{words}: {total / 1e6:.0f} MB{limit}, and {compiled / 1e6:.0f} MB if everything is compiled")
        for package, size in packages.most_common(SHOWN):
            print(f"  {size / 1e6:6.1f}  {package}")
        print(f"  {(total - sum(size for _, size in packages.most_common(SHOWN))) / 1e6:6.1f}  others")
        status |= int(bool(most) and total > most * 1e6)
    return status
