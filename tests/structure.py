"""The structure of the source in figures: files, lines, imports inside functions, files that a command enters.

    python -m tests.structure            print the figures of this checkout
    python -m tests.structure --run      and how many files five everyday commands enter (in a temporary HOME)
    python -m tests.structure --files    and which

`tests/test_structure.py` holds the rules. `__init__` modules are left out of the counts of files, here and there; of
the files that a command enters, both counts are printed.
"""

from __future__ import annotations

import ast
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "cortext"
# What hangs on the core by entry points: the rooms, and every adapter but the four big ones.
ROOMS = ("agents", "web", "server")
CORE_TOOLS = ("shared", "claude_code", "codex", "gemini_cli", "opencode")
COMMANDS = {
    "list": ["list"],
    "search": ["search", "retry"],
    "show": ["show", "1"],
    "hook (Stop)": ["hook", "claude"],
    "resume --dry-run": ["resume", "1", "--dry-run", "--ai", "claude"],
}
_TRACER = """
import os, sys, threading
source, target = os.environ["STRUCTURE_SOURCE"], os.environ["STRUCTURE_TARGET"]
entered = set()
def trace(frame, event, argument):
    if event == "call" and frame.f_code.co_filename.startswith(source):  # importing a module is a call of its body
        entered.add(frame.f_code.co_filename)
def keep():
    with open(target, "w") as file:
        file.write("\\n".join(sorted(entered)))
leave = os._exit
def exit_(code):
    sys.setprofile(None); keep(); leave(code)
os._exit = exit_
from cortext.faces.cortext.main import main
sys.setprofile(trace); threading.setprofile(trace)
try:
    main()
finally:
    sys.setprofile(None); keep()
"""


@dataclass(frozen=True)
class Module:
    """One file of the source."""

    name: str  # relative to src/cortext
    lines: int
    tree: ast.Module

    @property
    def is_core(self) -> bool:
        """Whether it belongs to the core, and not to a room or to an adapter that hangs on it."""
        first, _, rest = self.name.partition("/")
        return first not in ROOMS and (first != "tools" or "/" not in rest or rest.partition("/")[0] in CORE_TOOLS)

    @property
    def is_init(self) -> bool:
        """Whether it is a package's `__init__`."""
        return self.name.endswith("__init__.py")


@cache
def modules() -> tuple[Module, ...]:
    """Return every module of the source."""
    paths = [path for path in sorted(SOURCE.rglob("*.py")) if "migrations" not in path.parts]
    return tuple(_module(path) for path in paths)


def _module(path: Path) -> Module:
    text = path.read_text("utf-8")
    return Module(path.relative_to(SOURCE).as_posix(), text.count("\n"), ast.parse(text))


def imports(module: Module) -> list[tuple[ast.Import | ast.ImportFrom, bool]]:
    """Return every import, and whether it is inside a function."""
    return list(_imports(module.tree, False))


def _imports(node: ast.AST, in_function: bool) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, in_function
        elif isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield from _imports(child, in_function or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))


def local_imports(module: Module) -> Iterator[str]:
    """Yield what a module imports inside functions, apart from third-party packages."""
    for node, is_local in imports(module):
        for name in [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]:
            if is_local and name.partition(".")[0] in {"cortext", *sys.stdlib_module_names}:
                yield name


def renamed_imports(module: Module) -> Iterator[str]:
    """Yield every module of ours that is imported under another name."""
    for node, _ in imports(module):
        parent = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
        for alias in node.names:
            if alias.asname and alias.asname != alias.name and is_module(parent + alias.name):
                yield f"{module.name}: {parent}{alias.name} as {alias.asname}"


@cache
def is_module(name: str) -> bool:
    """Return whether there is such a module of ours."""
    parts = name.split(".")
    path = SOURCE.joinpath(*parts[1:])
    return parts[0] == "cortext" and len(parts) > 1 and (path.with_suffix(".py").exists() or path.is_dir())


def repeated_classes() -> dict[str, list[str]]:
    """Return the public and private class names that stand in more than one file outside the adapters."""
    places: dict[str, list[str]] = {}
    for module in modules():
        if module.name.startswith("tools/") and not module.name.startswith("tools/shared/"):
            continue
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(module.name)
    return {name: files for name, files in sorted(places.items()) if len(files) > 1}


def written_outside_init() -> list[str]:
    """Return the public attributes that a method other than `__init__` writes: of its object, or below it."""
    return [
        f"{module.name}: {kind.name}.{name} in {method.name}"
        for module in modules()
        if module.name.startswith(("services/", "index/", "faces/", "agents/"))
        for kind in (node for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef))
        for method in kind.body
        if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) and method.name != "__init__"
        for name in _written(method)
    ]


def _written(method: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """Yield the public attributes that a method writes, as a path from `self`: also in a tuple, a loop or a `with`."""
    for node in ast.walk(method):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            first, *path = ast.unparse(node).split(".")
            if first == "self" and not any(name.startswith("_") for name in path):
                yield ".".join(path)


@cache
def figures() -> dict[str, float]:
    """Return the figures of this checkout."""
    counted = [module for module in modules() if not module.is_init]
    core = [module for module in counted if module.is_core]
    return {
        "files": len(counted),
        "median lines": statistics.median(module.lines for module in counted),
        "under 80 lines": sum(module.lines < 80 for module in counted),
        "over 400 lines": sum(module.lines > 400 for module in counted),
        "over 600 lines": sum(module.lines > 600 for module in counted),
        "lines": sum(module.lines for module in modules()),
        "core: files": len(core),
        "core: lines": sum(module.lines for module in core),
        "imports inside functions": sum(is_local for module in modules() for _, is_local in imports(module)),
        "modules of ours under another name": sum(len(list(renamed_imports(module))) for module in modules()),
        "class names twice outside adapters": len(repeated_classes()),
        "public attributes of services written outside __init__": len(written_outside_init()),
    }


def entered(home: Path, folder: Path) -> dict[str, list[str]]:
    """Return the files of ours that each command enters, the second time that it is run."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "STRUCTURE_SOURCE": str(SOURCE), "COLUMNS": "120"}
    environment["PYTHONPATH"] = str(SOURCE.parent)
    environment["STRUCTURE_TARGET"] = str(home / "entered")
    home.mkdir(exist_ok=True)
    for arguments in (["demo", str(folder)], ["list"], ["search", "retry"]):
        command = [sys.executable, "-m", "cortext.faces.cortext.main", *arguments]
        cwd = folder if folder.exists() else home
        subprocess.run(command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    key = "00000000-0000-4000-8000-000000000000"
    transcript = home / ".claude" / "projects" / "p" / f"{key}.jsonl"
    transcript.parent.mkdir(parents=True)
    said = {"sessionId": key, "cwd": str(folder), "timestamp": "2026-11-19T10:00:00Z"}
    records = (
        {**said, "type": "user", "uuid": "1", "message": {"role": "user", "content": "And the retries?"}},
        {
            **said,
            "type": "assistant",
            "uuid": "2",
            "parentUuid": "1",
            "message": {"role": "assistant", "content": "3."},
        },
    )
    transcript.write_text("".join(json.dumps(record) + "\n" for record in records))
    importing = [
        sys.executable,
        "-m",
        "cortext.faces.cortext.main",
        "import",
    ]  # a list offers it until it was done once
    subprocess.run(importing, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    event = {"hook_event_name": "Stop", "session_id": key, "transcript_path": str(transcript), "cwd": str(folder)}
    files = {}
    for name, arguments in COMMANDS.items():
        for _ in range(2):
            done = subprocess.run(
                [sys.executable, "-c", _TRACER, *arguments],
                cwd=folder,
                env=environment,
                input=json.dumps(event) if name.startswith("hook") else "",
                capture_output=True,
                text=True,
                check=False,
            )
        if done.returncode:
            print(f"{name}: exit {done.returncode}: {done.stderr.strip()[-300:]}", file=sys.stderr)
        files[name] = [os.path.relpath(path, SOURCE) for path in (home / "entered").read_text().splitlines()]
    return files


def main() -> None:
    """Print the figures."""
    for name, value in figures().items():
        print(f"{value:>9,.0f}  {name}")
    if {"--run", "--files"} & {*sys.argv[1:]}:
        with tempfile.TemporaryDirectory() as home:
            for name, files in entered(Path(home), Path(home) / "demo").items():
                inits = sum(file.endswith("__init__.py") for file in files)
                print(f"{len(files):>9}  files entered by {name}, {len(files) - inits} without __init__")
                if "--files" in sys.argv[1:]:
                    print(*(f"{'':11}{file}" for file in files if not file.endswith("__init__.py")), sep="\n")


if __name__ == "__main__":
    main()
