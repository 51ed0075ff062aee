"""Setting up a project: the user's settings stay, installing twice changes nothing, removing restores every byte.

And what a tool deletes by itself: every conversation has a date, and the raised setting is restored byte for byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pytest

from cortext.errors import ConfigError, CortextError
from cortext.testing.reading import Conformance, files_in, only_if
from cortext.testing.samples import Samples
from cortext.tools.base import CommandFile, Hooks, Installer, Purges, TranscriptSource

PROGRAM = ("cortext",)
OTHER = ("/opt/my tools/python", "-m", "cortext")


def _has_entries(samples: Samples, home: Path) -> bool:
    """Return whether the adapter has entries in the settings of a project."""
    installer = samples.tool(home)
    assert isinstance(installer, Installer)
    return bool(installer.install_settings(str(home / "project"), PROGRAM, dry_run=True))


class InstallerConformance(Conformance):
    """`Installer`."""

    needs: ClassVar[type] = Installer

    @pytest.fixture
    def installer(self, tool: TranscriptSource) -> Installer:
        """Return the adapter."""
        assert isinstance(tool, Installer)
        return tool

    def write_files(self, project: Path, files: Mapping[str, str]) -> dict[str, bytes]:
        """Write the user's files; return everything that is in the project then."""
        for name, text in files.items():
            path = project / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
        return files_in(project)

    @only_if(_has_entries)
    def test_settings_are_installed_once_and_removed_without_a_trace(self, installer: Installer, project: Path) -> None:
        changed = installer.install_settings(str(project), PROGRAM)

        assert changed
        once = files_in(project)
        assert "cortext" in installer.mcp_servers(str(project))
        assert installer.install_settings(str(project), PROGRAM) == []
        assert files_in(project) == once
        assert sorted(installer.remove_settings(str(project))) == sorted(changed)
        assert list(project.iterdir()) == []
        assert installer.remove_settings(str(project)) == []
        assert installer.first_steps

    def test_a_dry_run_names_the_same_files_and_changes_none(self, installer: Installer, project: Path) -> None:
        named = installer.install_settings(str(project), PROGRAM, dry_run=True)
        assert list(project.iterdir()) == []

        assert installer.install_settings(str(project), PROGRAM) == named
        once = files_in(project)
        assert sorted(installer.remove_settings(str(project), dry_run=True)) == sorted(named)
        assert files_in(project) == once

    @only_if(_has_entries)
    def test_without_the_mcp_server_only_the_rest_is_added_and_an_entry_stays(
        self, installer: Installer, project: Path
    ) -> None:
        installer.install_settings(str(project), PROGRAM, server=False)
        assert "cortext" not in installer.mcp_servers(str(project))

        installer.install_settings(str(project), PROGRAM)
        once = files_in(project)
        assert "cortext" in installer.mcp_servers(str(project))
        assert installer.install_settings(str(project), PROGRAM, server=False) == []
        assert files_in(project) == once
        installer.remove_settings(str(project))
        assert list(project.iterdir()) == []

    def test_removing_restores_the_users_settings_byte_by_byte(self, installer: Installer, project: Path) -> None:
        for number, files in enumerate(self.samples.settings):
            folder = project / str(number)
            folder.mkdir()
            before = self.write_files(folder, files)

            installer.install_settings(str(folder), PROGRAM)
            assert files_in(folder) != before, files
            assert installer.install_settings(str(folder), PROGRAM) == [], files
            # Another command line replaces the first.
            assert installer.install_settings(str(folder), OTHER), files
            installer.remove_settings(str(folder))
            assert files_in(folder) == before, files

    def test_broken_settings_are_named_and_nothing_is_changed(self, installer: Installer, project: Path) -> None:
        for number, files in enumerate(self.samples.broken_settings):
            folder = project / str(number)
            folder.mkdir()
            before = self.write_files(folder, files)

            with pytest.raises(ConfigError) as caught:
                installer.install_settings(str(folder), PROGRAM)

            assert any(name in caught.value.message for name in files), caught.value.message
            assert files_in(folder) == before, files

    def test_binary_settings_and_links_out_of_the_project_are_refused(
        self, installer: Installer, project: Path, tmp_path: Path
    ) -> None:
        outside = tmp_path / "outside"
        outside.write_text("{}", encoding="utf-8")
        for path in installer.install_settings(str(project), PROGRAM, dry_run=True):
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_bytes(b"\xff\xfe")
            with pytest.raises(ConfigError):
                installer.install_settings(str(project), PROGRAM)
            assert files_in(project) == {str(Path(path).relative_to(project)): b"\xff\xfe"}
            Path(path).unlink()
            Path(path).symlink_to(outside)
            with pytest.raises(CortextError):
                installer.install_settings(str(project), PROGRAM)
            assert outside.read_text(encoding="utf-8") == "{}"
            Path(path).unlink()

    def test_its_files_are_inside_the_project(self, installer: Installer) -> None:
        commands = [
            CommandFile(name="workspace.plan", description='Plan: "it"', text="Topic: {arguments}\n"),
            CommandFile(name="workspace.resume", description="x", text="{run}\n", run=("resume", "--in-tool")),
        ]

        files = installer.files(commands, PROGRAM)

        assert files
        for path, contents in files.items():
            assert not path.startswith("/") and ".." not in path.split("/")
            contents.decode("utf-8")
        commands_in = [f"{path}\n{contents.decode('utf-8')}" for path, contents in files.items()]
        assert all(any(name in text for text in commands_in) for name in ("plan", "resume"))
        assert installer.files(commands, PROGRAM) == files

    def test_disabled_hooks_come_with_a_reason_and_a_remedy(self, installer: Installer, project: Path) -> None:
        if isinstance(installer, Hooks):
            for reason, remedy in installer.hooks_off(str(project)):
                assert reason and remedy


class PurgesConformance(Conformance):
    """`Purges`."""

    needs: ClassVar[type] = Purges

    @pytest.fixture
    def purging(self, tool: TranscriptSource, home: Path) -> Purges:
        """Return the adapter of a tool with one conversation."""
        assert isinstance(tool, Purges)
        self.samples.save(home)
        return tool

    def test_every_conversation_has_a_date(self, purging: Purges) -> None:
        transcript = self.only_transcript(purging)
        purge = purging.purge()

        assert purge is not None
        assert [item.key for item, _ in purge.due] == [transcript.key]
        assert purge.setting and purge.value and purge.keeping and purge.file

    def test_the_raised_setting_stops_the_deletion_and_is_restored(self, purging: Purges, home: Path) -> None:
        before = files_in(home)

        named = purging.raise_retention(dry_run=True)
        assert files_in(home) == before
        assert purging.raise_retention() == named
        raised = purging.purge()
        assert raised is None or not raised.due
        assert purging.raise_retention() == []
        assert purging.restore_retention() == named
        assert files_in(home) == before
        assert purging.restore_retention() == []
