"""Types of fields of what is written down as JSON, and may be anybody's: read within bounds, by pydantic.

A frozen dataclass that is written down names its fields' types by these, and a TypeAdapter of it reads and
writes them. pydantic's errors are ValueErrors.
"""

import json
from datetime import datetime
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, TypeAdapter, ValidationError

from zbackup.model import bounds

MOST_NUMBER = 2**63

T = TypeVar("T")


def _moment(value: object) -> datetime:
    if not isinstance(value, str):
        raise ValueError("it is no time")
    return bounds.moment(value)


def _end(value: str) -> str:
    return bounds.end(value).isoformat() if value else ""


Moment = Annotated[
    datetime, BeforeValidator(_moment), PlainSerializer(datetime.isoformat, return_type=str, when_used="json")
]
"""A time with its zone, in ISO 8601, of a year in which there are backups."""

End = Annotated[str, AfterValidator(_end)]
"""The same as text, "" for none; one that is farther than anybody can calculate with is moved to where that
is possible."""

Number = Annotated[int, Field(ge=0, lt=MOST_NUMBER, strict=True)]
"""A number that is not negative, of 63 bits."""

Count = Annotated[int, Field(ge=0, lt=2**64, strict=True)]
"""The same of 64 bits."""


def to_rows(adapter: TypeAdapter[Any], value: object, *, without: set[str] | None = None) -> dict[str, Any]:
    """Return a dataclass as JSON's own values, but for some of its fields."""
    rows: dict[str, Any] = adapter.dump_python(value, mode="json", exclude=without)
    return rows


def from_rows(adapter: TypeAdapter[T], rows: object) -> T:
    """Read what to_rows returned. Raise ValueError, on one line, if it is not that."""
    try:
        return adapter.validate_python(rows)
    except ValidationError as wrong:
        first = wrong.errors(include_url=False, include_input=False)[0]
        # A name in it may be anybody's, of any length.
        at = bounds.shown(".".join(str(part) for part in first["loc"]))
        raise ValueError(f"{at}: {first['msg']}") from wrong


def one_text(value: object) -> str:
    """Write on one line, keys in a fixed order: the same is always the same text."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True)
