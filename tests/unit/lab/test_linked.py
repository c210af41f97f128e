"""Tools that a guest sees, and the version they say: the parts that need neither network nor compiler."""

import json
from pathlib import Path

import pytest

from tests.lab import linked
from tests.lab.recipe import BuiltGuest


@pytest.fixture
def built(tmp_path: Path) -> BuiltGuest:
    built = BuiltGuest(home=tmp_path / "guest")
    built.home.mkdir()
    built.versions.write_text(json.dumps({linked.VERSION_OF: "2.3.2-2~bpo12+2"}))
    return built


def test_the_packages_tools_do_what_is_not_linked(built: BuiltGuest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAB_ZFS", raising=False)
    assert linked.trees(built) == [built.tools]
    linked.layer(built).mkdir()
    assert linked.trees(built) == [linked.layer(built), built.tools]
    monkeypatch.setenv("LAB_ZFS", "packaged")
    assert linked.trees(built) == [built.tools]


def test_another_version_of_the_packages_is_linked_anew(built: BuiltGuest) -> None:
    first = linked.layer(built)
    built.versions.write_text(json.dumps({linked.VERSION_OF: "2.3.9-0+deb13u1"}))
    assert linked.layer(built) != first


def test_the_programs_say_the_version_of_the_packages(tmp_path: Path) -> None:
    meta = tmp_path / "META"
    meta.write_text("Version:       2.3.2\nRelease:       1\nLicense:       CDDL\n")
    linked.name_release(meta, "2.3.2-2~bpo12+2")
    assert meta.read_text() == "Version:       2.3.2\nRelease: 2~bpo12+2\nLicense:       CDDL\n"


def test_a_failure_is_said_once_and_the_packages_tools_stay(
    built: BuiltGuest, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("LAB_ZFS", raising=False)
    tries = []

    def fail(*_: object) -> None:
        tries.append(1)
        raise linked.StepFailed("no compiler")

    monkeypatch.setattr(linked, "_build", fail)
    linked.ensure(built)
    linked.ensure(built)
    assert len(tries) == 1 and "no compiler" in capsys.readouterr().err
    assert linked.trees(built) == [built.tools]
    assert linked.state(built) == "the packages' own: no compiler"
