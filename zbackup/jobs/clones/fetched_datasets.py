"""Tell what a copy that was fetched from a destination consists of: exactly that may be destroyed again."""

from collections.abc import Sequence
from contextlib import suppress

from zbackup.jobs.context import Context
from zbackup.model import bounds
from zbackup.model.errors import Refused
from zbackup.model.snapshot import Dataset
from zbackup.zfs.streams import ZfsStreams

FETCHED = "zbackup:fetched"
"""On a copy's own dataset: the guids of the snapshots it holds or is to hold."""


def fetched_guids(ctx: Context, container: str) -> set[str]:
    """The guids, as text; none for anything that is not a copy. Raise Refused for what are no guids."""
    text = ctx.zfs.user_properties(container).get(container, {}).get(FETCHED, "[]")
    with suppress(ValueError):
        found = bounds.from_json(text)
        if isinstance(found, list) and all(isinstance(guid, str) for guid in found):
            return set(found)
    raise Refused(f"{FETCHED} of {container} holds no list of guids: somebody has changed it")


def abort_partials(ctx: Context, datasets: Sequence[Dataset]) -> None:
    """Give up what arrived in part: nothing below it can be destroyed before."""
    streams = ZfsStreams(ctx.zfs.runner)
    for dataset in datasets:
        if streams.partial(dataset.name):
            streams.abort(dataset.name)
