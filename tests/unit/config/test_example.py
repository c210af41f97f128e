"""The example of a configuration says all there is, and says it right."""

import tomllib
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel

from zbackup.config.load import parse
from zbackup.config.settings import Settings

EXAMPLE = Path(__file__).parents[3] / "config.example.toml"


def test_the_example_is_valid_and_shows_every_setting() -> None:
    text = EXAMPLE.read_text()
    assert set(parse(text).instance) == {"shop", "wiki", "carts"}
    shown = "\n".join(line.lstrip("# ") for line in text.splitlines())
    missing = {key for key in _keys(Settings) if f"\n{key} = " not in shown and f" {key} = " not in shown}
    assert missing == set()


def test_every_default_in_the_example_is_the_default() -> None:
    """The lines that say `key = value` in the lock and recovery tables, and the commented ones, are true."""
    whole = parse(EXAMPLE.read_text())
    assert whole.daemon == type(whole.daemon)()
    settings = whole.instance["shop"]
    assert settings.lock == type(settings.lock)()
    assert settings.recovery == type(settings.recovery)()
    assert settings.notify == type(settings.notify)()
    unset = settings.schedule.model_copy(update=dict.fromkeys(("snapshot", "prune", "ship", "drill")))
    assert unset == type(settings.schedule)()
    commented = [
        line.removeprefix("# ") for line in EXAMPLE.read_text().splitlines()
        if line.startswith(("# run_dir", "# port = 3306"))
    ]  # fmt: skip
    top = tomllib.loads("\n".join(commented))
    assert top.pop("port") == settings.tcp_port
    assert {k: Path(v) for k, v in top.items()} == {
        "run_dir": Path("/run/zbackup"),
    }


def _keys(model: type[BaseModel]) -> set[str]:
    found: set[str] = set()
    for name, field in model.model_fields.items():
        tables = [m for m in _models(field.annotation)]
        found |= set().union(*map(_keys, tables)) if tables else {name}
    return found


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [m for argument in get_args(annotation) for m in _models(argument)]
