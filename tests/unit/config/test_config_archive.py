"""Settings of the log archive."""

from pathlib import Path

import pytest

from zbackup import app
from zbackup.config.load import load
from zbackup.model.archive import ArchiveRules
from zbackup.model.errors import ConfigError
from zbackup.model.progress import Silent

INSTANCE = """
[instance.shop]
engine = "{engine}"
datasets = ["tank/mysql"]

[[instance.shop.ship]]
name = "offsite"
to = "ssh://backup@host/tank/backups"

[[instance.shop.ship]]
to = "s3://bucket/prefix"
"""


def configured(tmp_path: Path, archive: str, engine: str = "mysql") -> Path:
    file = tmp_path / "config.toml"
    file.write_text(INSTANCE.format(engine=engine) + f"[instance.shop.archive]\n{archive}\n")
    return file


def test_where_and_how_often(tmp_path: Path) -> None:
    settings = load(configured(tmp_path, 'to = ["offsite", "bucket"]\nevery = "1s"'))
    ctx = app.context(settings, settings.instance["shop"], Silent())
    assert ctx.archive == ArchiveRules(to=("offsite", "bucket"), every=1.0)
    default = load(configured(tmp_path, 'to = ["offsite"]')).instance["shop"].archive
    assert default is not None and default.every == 5.0


@pytest.mark.parametrize(
    ("archive", "engine", "problem"),
    [
        ('to = ["nowhere"]', "mysql", 'there is no destination "nowhere"; there is offsite, bucket'),
        ('to = ["offsite"]\nevery = "0s"', "mysql", 'a duration from "1s" to "1h"'),
        ('to = ["offsite"]\nevery = "500ms"', "mysql", 'a duration from "1s" to "1h"'),
        ('to = ["offsite"]\nevery = "2h"', "mysql", 'a duration from "1s" to "1h"'),
        ("to = []", "mysql", "a list"),
        ('every = "5s"', "mysql", "to"),
    ],
)
def test_what_makes_no_sense_is_said(tmp_path: Path, archive: str, engine: str, problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(configured(tmp_path, archive, engine))
    assert any(problem in each for each in refused.value.problems), refused.value.problems
