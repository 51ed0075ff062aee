"""The skill that tells a model how to use cortext, for the tools that read the shared folder `.agents/skills`."""

from __future__ import annotations

from importlib import resources

_SKILL = "skills/cortext/SKILL.md"


def agent_skill() -> dict[str, bytes]:
    """Return the skill by its path in the project. All tools that read the folder share the one file."""
    return {
        f".agents/{_SKILL}": resources.files("cortext").joinpath("workspace_files", *_SKILL.split("/")).read_bytes()
    }
