"""What adapters share that put entries into a tool's settings files (see `installer`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cortext.tools.shared.installer import Config


class SettingsFiles:
    """The two methods of `Installer` that change settings, for an adapter that says which entries it has."""

    def configs(self, program: Sequence[str] = ("cortext",)) -> Sequence[Config]:
        """Return our entries in the settings files of a project; `program` is how to call cortext."""
        raise NotImplementedError

    def install_settings(
        self, project: str, program: Sequence[str], *, server: bool = True, dry_run: bool = False
    ) -> list[str]:
        """Add our entries, those of the MCP server only if `server`; return the files that changed, or would."""
        from cortext.tools.shared import installer

        return installer.install(project, self.configs(program), server=server, dry_run=dry_run)

    def remove_settings(self, project: str, *, dry_run: bool = False) -> list[str]:
        """Remove exactly what `install_settings` added; return the files that changed, or would."""
        from cortext.tools.shared import installer

        return installer.remove(project, self.configs(), dry_run=dry_run)
