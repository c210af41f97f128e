"""Adapters as tests give them to a context."""

from dataclasses import dataclass, fields, replace
from typing import Any, cast

from zbackup.engines.base import Adapters, Engine, LogReader, Recovery
from zbackup.engines.log_search import FileSearch, ServerSearch
from zbackup.jobs.context import Context


@dataclass(frozen=True, kw_only=True)
class GivenAdapters:
    engine: Engine
    recovery: Recovery
    log_reader: LogReader
    log_search: FileSearch | ServerSearch
    follower: Any = None


def changed(ctx: Context, **changes: Any) -> Context:
    """The context with other adapters or values."""
    own = {name: changes.pop(name) for name in [f.name for f in fields(GivenAdapters)] if name in changes}
    return replace(ctx, adapters=cast(Adapters, replace(cast(Any, ctx.adapters), **own)), **changes)
