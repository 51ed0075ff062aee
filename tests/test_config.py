"""Settings: sources, precedence, errors, and what an untrusted repository may not set."""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path

import pytest

from cortext.config import folders
from cortext.config.load import is_trusted, load, trust
from cortext.config.schema import SETTINGS, NamedSetting, Settings, Value
from cortext.errors import ConfigError
from cortext.testing.table import every_row
from tests.support.cli import cortext


def value_of(settings: Settings, name: str) -> Value:
    """Return the value of a setting by its dotted name."""
    value: Value = attrgetter(name)(settings)
    return value


@pytest.fixture
def user_file(home: Path) -> Path:
    """Return the path of the user's settings file, which does not exist yet."""
    path = home / ".config" / "cortext" / "config.toml"
    path.parent.mkdir(parents=True)
    return path


@pytest.fixture
def workspace_file(tmp_path: Path) -> Path:
    """Return the path of the workspace's settings file, which does not exist yet."""
    (tmp_path / ".workspace").mkdir()
    return tmp_path / ".workspace" / "config.toml"


@pytest.mark.req("SAFE-04")
def test_without_any_file_every_setting_has_its_default(tmp_path: Path) -> None:
    settings = load(str(tmp_path))
    assert {name: value_of(settings, name) for name in SETTINGS} == {
        name: setting.default for name, setting in SETTINGS.items()
    }
    assert settings.ignored == {}


@pytest.mark.req("SAFE-04")
def test_the_workspace_overrides_the_user_and_the_environment_both(
    user_file: Path, workspace_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert load(str(tmp_path)).workspace.pause_minutes == 5
    user_file.write_text("[workspace]\npause_minutes = 10\ncommit = false\n", encoding="utf-8")
    assert load(str(tmp_path)).workspace.pause_minutes == 10
    workspace_file.write_text("[workspace]\npause_minutes = 20\n", encoding="utf-8")
    assert load(str(tmp_path)).workspace.pause_minutes == 20
    assert load().workspace.pause_minutes == 10, "its settings apply only in that workspace"
    monkeypatch.setenv("CORTEXT_WORKSPACE_PAUSE_MINUTES", "30")
    assert load(str(tmp_path)).workspace.pause_minutes == 30
    assert load(str(tmp_path)).workspace.commit is False, "a setting that only one file has is kept"


@pytest.mark.req("SAFE-04")
@every_row("setting", SETTINGS.values(), ids=SETTINGS)
def test_only_harmless_settings_of_an_untrusted_repository_apply(setting: NamedSetting, tmp_path: Path) -> None:
    (tmp_path / ".workspace").mkdir()
    workspace_file = tmp_path / ".workspace" / "config.toml"
    table, _, key = setting.name.rpartition(".")
    value: Value = "x"
    if isinstance(setting.default, bool):
        value = not setting.default
    elif isinstance(setting.default, (int, float)):
        value = setting.default + 1
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    workspace_file.write_text(f"[{table}]\n{key} = {text}\n", encoding="utf-8")
    plain, trusted = load(str(tmp_path)), load(str(tmp_path), trusted=True)
    assert value_of(trusted, setting.name) == value
    assert trusted.ignored == {}
    if setting.untrusted_ok:
        assert value_of(plain, setting.name) == value
        assert plain.ignored == {}
    else:
        assert value_of(plain, setting.name) == setting.default
        assert plain.ignored == {setting.name: str(workspace_file)}


@pytest.mark.req("SAFE-04")
def test_the_settings_open_to_an_untrusted_repository_are_pinned() -> None:
    """Written out, so that opening another setting requires a change here too."""
    open_settings = {name for name, setting in SETTINGS.items() if setting.untrusted_ok}
    assert open_settings == {
        "store.lock_timeout",
        "session.idle_minutes",
        "workspace.pause_minutes",
        "workspace.commit",
        "workspace.pause_words",
        "workspace.offer_after",
        "resume.tokens",
        "resume.native_tokens",
        "resume.compaction_tokens",
        "resume.tool",
    }


@pytest.mark.req("SAFE-04")
def test_an_invalid_value_of_an_ignored_setting_is_ignored(workspace_file: Path, tmp_path: Path) -> None:
    workspace_file.write_text('[workspace]\nmask = "perhaps"\n', encoding="utf-8")
    settings = load(str(tmp_path))
    assert settings.workspace.mask is True
    assert list(settings.ignored) == ["workspace.mask"]


@pytest.mark.req("SAFE-04", "LOOK-01")
def test_an_unknown_setting_is_reported_with_its_file_and_a_suggestion(user_file: Path) -> None:
    user_file.write_text("[workspace]\npause_minuts = 1\n", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load()
    assert caught.value.message == f"{user_file}: unknown setting workspace.pause_minuts"
    assert "workspace.pause_minutes" in caught.value.hint


@pytest.mark.req("SAFE-04", "LOOK-01")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[workspace]\npause_minutes = "soon"\n', "workspace.pause_minutes = 'soon' is not a whole number"),
        ("[workspace]\npause_minutes = true\n", "workspace.pause_minutes = True is not a whole number"),
        ("[workspace]\npause_minutes = [1]\n", "workspace.pause_minutes = [1] is not a whole number"),
        ('[workspace]\ncommit = "perhaps"\n', "workspace.commit = 'perhaps' is not true or false"),
        ("[workspace]\npause_words = false\n", "workspace.pause_words = False is not text"),
        ('[store]\nlock_timeout = "long"\n', "store.lock_timeout = 'long' is not a number"),
    ],
)
def test_a_wrong_type_is_reported_with_its_file(user_file: Path, text: str, said: str) -> None:
    user_file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load()
    assert caught.value.message == f"{user_file}: {said}"
    assert caught.value.kept == "nothing was changed"
    assert "default: " in caught.value.hint


@pytest.mark.req("SAFE-04", "LOOK-01")
def test_a_wrong_type_in_the_environment_is_reported_with_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORTEXT_STORE_LOCK_TIMEOUT", "long")
    with pytest.raises(ConfigError, match=r"^\$CORTEXT_STORE_LOCK_TIMEOUT: store\.lock_timeout = 'long'"):
        load()


@pytest.mark.req("SAFE-04", "LOOK-01")
@pytest.mark.parametrize("raw", [b"[workspace\n", b"\xff\xfe", b"a = 1\na = 2\n"], ids=["syntax", "utf-8", "twice"])
def test_a_file_that_is_not_toml_is_reported(user_file: Path, raw: bytes) -> None:
    user_file.write_bytes(raw)
    with pytest.raises(ConfigError) as caught:
        load()
    assert caught.value.message.startswith(f"{user_file} is not TOML")
    done = cortext("list", "--json")
    assert done.code == 7
    assert done.json["error"]["code"] == "config"


@pytest.mark.req("SAFE-04", "LOOK-01")
def test_a_folder_in_place_of_the_settings_file_is_an_error(user_file: Path) -> None:
    user_file.mkdir()
    with pytest.raises(ConfigError, match="cannot read"):
        load()


@pytest.mark.req("SAFE-04")
def test_trust_covers_one_folder_with_its_current_settings(workspace_file: Path, tmp_path: Path) -> None:
    root = str(tmp_path)
    workspace_file.write_text("[workspace]\nmask = false\n", encoding="utf-8")
    assert not is_trusted(root)
    trust(root)
    assert is_trusted(root)
    assert not is_trusted(root + "/other")
    workspace_file.write_text("[workspace]\nmask = false\nkeep_unmasked = true\n", encoding="utf-8")
    assert not is_trusted(root), "a changed file must be trusted again"
    workspace_file.write_text("[workspace]\nmask = false\n", encoding="utf-8")
    assert is_trusted(root)


@pytest.mark.req("SAFE-04")
def test_cortext_config_names_another_file_and_relative_folders_are_ignored(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other.toml"
    other.write_text("[workspace]\noffer_after = 7\n", encoding="utf-8")
    monkeypatch.setenv("CORTEXT_CONFIG", str(other))
    assert load().workspace.offer_after == 7
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    assert folders.data() == str(home / ".local" / "share" / "cortext")


def test_a_setting_of_an_earlier_version_is_ignored_with_a_warning(user_file: Path) -> None:
    user_file.write_text('[workspace]\nrecall = "prompt"\npause_minutes = 9\n', encoding="utf-8")
    settings = load()
    assert settings.workspace.pause_minutes == 9
    assert settings.warnings() == [f"{user_file}: unknown setting workspace.recall; it was ignored"]
