"""What the web page shows of the settings: what is known to be harmless, and nothing else."""

from collections.abc import Iterator
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from zbackup.config.notify import Webhook
from zbackup.config.secret import SecretRef
from zbackup.config.settings import Settings
from zbackup.config.table import SettingsTable
from zbackup.features.webpage import effective
from zbackup.features.webpage.effective import HARMLESS, HIDDEN, PROGRAMS


def parts(annotation: Any) -> Iterator[Any]:
    """All types that an annotation is made of."""
    yield annotation
    for each in get_args(annotation):
        yield from parts(each)


def tables(root: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """The model of every table below one."""
    yield root
    for field in root.model_fields.values():
        for kind in parts(field.annotation):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from tables(kind)


TABLES = sorted(set(tables(Settings)), key=lambda table: table.__name__)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.__name__)
def test_each_setting_that_is_shown_is_there_and_holds_no_secret(table: type[BaseModel]) -> None:
    harmless, programs = HARMLESS.get(table, "").split(), PROGRAMS.get(table, "").split()
    assert {*harmless, *programs} <= set(table.model_fields)
    assert not set(harmless) & set(programs)
    for name in harmless:
        kinds = set(map(str, parts(table.model_fields[name].annotation)))
        # A webhook's URL may be one in the open, of which the host is shown, or a reference, which is hidden.
        assert str(SecretRef) not in kinds or (table, name) == (Webhook, "url")
        assert not {"password", "key", "secret", "token", "options", "proxy", "uri"} & set(
            name.split("_")
        ) or (name in ("kms_key", "public_key", "key") and table.__name__ in ("S3", "Tls"))


def test_what_is_in_neither_list_is_hidden() -> None:
    class New(SettingsTable):
        """A table that came after the lists."""

        name: str = "SECRET"
        number: int = 4711
        words: tuple[str, ...] = ("SECRET", "SECRET")
        by_key: dict[str, str] = {"a": "SECRET"}  # noqa: RUF012

    shown = dict(effective._table("new", New()))
    assert shown == dict.fromkeys(("new.name", "new.number", "new.words", "new.by_key"), HIDDEN)
