"""Datasets that an instance's clones may be below, and destinations that a server can run at."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from zbackup import app
from zbackup.config.load import parse
from zbackup.jobs.context import Context
from zbackup.jobs.restore.at_destination import at_destination
from zbackup.jobs.watch.root_helper import VERBS, obey
from zbackup.model.errors import Refused
from zbackup.model.progress import Silent

TOP = '[instance.shop]\nengine = "mysql"\ndatasets = ["tank/mysql"]\n'
SHIP = "".join(
    f'[[instance.shop.ship]]\nto = "{to}"\nname = "{name}"\n'
    for name, to in (
        ("here", "zfs:tank/copies"),
        ("disk", "zfs:disk/zbackup"),
        ("disk2", "zfs:disk/more"),
        ("away", "ssh://vault/disk"),
        ("cloud", "s3://bucket/all"),
    )
)


def context() -> Context:
    settings = parse(TOP + SHIP)
    return app.context(settings, settings.instance["shop"], Silent())


def test_clones_are_made_on_the_pool_of_the_copies() -> None:
    ctx = context()
    assert (ctx.clones, *ctx.elsewhere) == ("tank/zbackup", "disk/zbackup-clones")
    assert ctx.cloning.roots == ("tank/zbackup", "disk/zbackup-clones")
    places = [
        at_destination(ctx, app.choose_destination(ctx, name)).clones for name in ("here", "disk", "disk2")
    ]
    assert places == ["tank/zbackup", "disk/zbackup-clones", "disk/zbackup-clones"]
    assert ctx.at("disk/zbackup-clones").elsewhere == ("tank/zbackup",), "they hide those at home"


def test_names_that_zbackup_uses_itself_are_nobody_elses() -> None:
    assert context().cloning.reserved >= {"shop-drill", "shop-search", "shop-undo", "shop-drill-2"}


@pytest.mark.parametrize("name", ["away", "cloud"])
def test_no_server_runs_on_another_host(name: str) -> None:
    ctx = context()
    with pytest.raises(Refused, match=f"^{name} is .* which is not on this host"):
        at_destination(ctx, app.choose_destination(ctx, name))


def test_a_helper_looks_in_all_places() -> None:
    asked: list[str] = []

    def remove(at: Any, name: str) -> tuple[str, bool] | None:
        asked.append(at)
        return (f"removed {name}", True) if at == "there" else None

    everywhere = SimpleNamespace(everywhere=lambda: ("home", "there", "nowhere"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(cast(Any, VERBS), "remove-unfinished", remove)
        line = '{"verb": "remove-unfinished", "instance": "shop", "clone": "x"}'
        assert obey(line, cast(Any, {"shop": everywhere})) == {"said": "removed x", "done": True}
    assert asked == ["home", "there"]


@pytest.mark.parametrize("line", ["", "[]", '{"verb": "end-lease"}', "[" * 100_000, '{"verb": 1}'])
def test_what_is_no_question_is_refused(line: str) -> None:
    with pytest.raises(Refused, match="not a question"):
        obey(line, {})
