"""Setting up a project: what the user has stays, twice is as once, and taking it out leaves every byte as it was."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from cortext.errors import ConfigError, CortextError
from cortext.testing.reading import Conformance, tree
from cortext.tools.base import CommandFile, Hooks, Installer, TranscriptSource

PROGRAM = ("cortext",)
OTHER = ("/opt/my tools/python", "-m", "cortext")


class InstallerConformance(Conformance):
    """`Installer`."""

    @pytest.fixture
    def installer(self, tool: TranscriptSource) -> Installer:
        """The adapter, if it sets up projects."""
        if not isinstance(tool, Installer):
            pytest.skip("this tool is not set up in projects")
        return tool

    def put(self, project: Path, files: Mapping[str, str]) -> dict[str, bytes]:
        """The user's files; what is in the project then."""
        for name, text in files.items():
            path = project / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
        return tree(project)

    def test_it_goes_in_once_and_out_without_a_trace(self, installer: Installer, project: Path) -> None:
        changed = installer.install_settings(str(project), PROGRAM)

        assert changed
        once = tree(project)
        assert "cortext" in installer.mcp_servers(str(project))
        assert installer.install_settings(str(project), PROGRAM) == []
        assert tree(project) == once
        assert sorted(installer.remove_settings(str(project))) == sorted(changed)
        assert list(project.iterdir()) == []
        assert installer.remove_settings(str(project)) == []
        assert installer.first_steps

    def test_a_dry_run_names_the_same_files_and_changes_none(self, installer: Installer, project: Path) -> None:
        named = installer.install_settings(str(project), PROGRAM, dry_run=True)
        assert list(project.iterdir()) == []

        assert installer.install_settings(str(project), PROGRAM) == named
        once = tree(project)
        assert sorted(installer.remove_settings(str(project), dry_run=True)) == sorted(named)
        assert tree(project) == once

    def test_without_the_mcp_server_only_the_rest_is_added_and_an_entry_stays(
        self, installer: Installer, project: Path
    ) -> None:
        installer.install_settings(str(project), PROGRAM, server=False)
        assert "cortext" not in installer.mcp_servers(str(project))

        installer.install_settings(str(project), PROGRAM)
        once = tree(project)
        assert "cortext" in installer.mcp_servers(str(project))
        assert installer.install_settings(str(project), PROGRAM, server=False) == []
        assert tree(project) == once
        installer.remove_settings(str(project))
        assert list(project.iterdir()) == []

    def test_what_the_user_has_stays_to_the_byte(self, installer: Installer, project: Path) -> None:
        for number, files in enumerate(self.samples.settings):
            folder = project / str(number)
            folder.mkdir()
            before = self.put(folder, files)

            installer.install_settings(str(folder), PROGRAM)
            assert tree(folder) != before, files
            assert installer.install_settings(str(folder), PROGRAM) == [], files
            # Another way to call us takes the place of the first.
            assert installer.install_settings(str(folder), OTHER), files
            installer.remove_settings(str(folder))
            assert tree(folder) == before, files

    def test_settings_that_cannot_be_used_are_named_and_nothing_is_touched(
        self, installer: Installer, project: Path
    ) -> None:
        for number, files in enumerate(self.samples.broken_settings):
            folder = project / str(number)
            folder.mkdir()
            before = self.put(folder, files)

            with pytest.raises(ConfigError) as caught:
                installer.install_settings(str(folder), PROGRAM)

            assert any(name in caught.value.message for name in files), caught.value.message
            assert tree(folder) == before, files

    def test_settings_that_are_not_text_or_lead_out_of_the_project_are_left_alone(
        self, installer: Installer, project: Path, tmp_path: Path
    ) -> None:
        outside = tmp_path / "outside"
        outside.write_text("{}", encoding="utf-8")
        for path in installer.install_settings(str(project), PROGRAM, dry_run=True):
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_bytes(b"\xff\xfe")
            with pytest.raises(ConfigError):
                installer.install_settings(str(project), PROGRAM)
            assert tree(project) == {str(Path(path).relative_to(project)): b"\xff\xfe"}
            Path(path).unlink()
            Path(path).symlink_to(outside)
            with pytest.raises(CortextError):
                installer.install_settings(str(project), PROGRAM)
            assert outside.read_text(encoding="utf-8") == "{}"
            Path(path).unlink()

    def test_its_own_files_lie_in_the_project(self, installer: Installer) -> None:
        commands = [
            CommandFile(name="workspace.plan", description='Plan: "it"', text="Topic: {arguments}\n"),
            CommandFile(name="workspace.resume", description="x", text="{run}\n", run=("resume", "--in-tool")),
        ]

        files = installer.files(commands, PROGRAM)

        assert files
        for path, contents in files.items():
            assert not path.startswith("/") and ".." not in path.split("/")
            contents.decode("utf-8")
        assert all(any(name in path for path in files) for name in ("plan", "resume"))
        assert installer.files(commands, PROGRAM) == files

    def test_nothing_keeps_hooks_off_that_it_cannot_explain(self, installer: Installer, project: Path) -> None:
        if isinstance(installer, Hooks):
            for why, todo in installer.hooks_off(str(project)):
                assert why and todo
