"""The fake says what a real zfs said (and tests/platform/test_fake_zfs.py, that the real one still does)."""

from tests.fast.runner import answer, play_fake
from tests.fast.script import play, recorded, steps


def test_the_fake_answers_as_the_real_zfs_did() -> None:
    zfs, stream = play_fake()
    played = play("lab.fake", "/mnt/fake", lambda argv: answer(zfs, argv), stream, lambda _: None)
    differing = [(one, other) for one, other in zip(played, recorded(), strict=True) if one != other]
    assert differing == []


def test_the_record_is_of_this_script() -> None:
    assert [each["line"] for each in recorded()] == [line for line in steps() if line != "FILL"]
