"""Clones from the page, in a real browser: the real orders, on the pool in memory."""

import os
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from pydantic import TypeAdapter
from selenium.webdriver.support.select import Select

from tests.browser.conftest import (
    Browser,
    Site,
    log_in,
    require_readable,
    served,
    sized,
    started,
    text,
    until,
    until_said,
)
from tests.fast.world import World, at_the_doors
from tests.unit.web.host import Told, fleet, host, shop
from zbackup.features.webpage.cloner import obey
from zbackup.features.webpage.operations.order import parse
from zbackup.features.webpage.operations.record import Operations
from zbackup.features.webpage.overview import reader
from zbackup.features.webpage.overview.inspect import clones_of
from zbackup.jobs.backup.snapshot import snapshot
from zbackup.jobs.clones.lifecycle import list_clones
from zbackup.jobs.context import Context
from zbackup.model.cloning import CloneRules
from zbackup.model.errors import ZbackupError
from zbackup.model.overview import MomentPlan, Overview
from zbackup.model.progress import Progress
from zbackup.proc.helper_socket import answer, answer_much, hear

RULES = CloneRules(lease=6 * 3600.0, quota=20 << 30)


@dataclass
class Machine:
    """A pool in memory, and the two who answer at the sockets. `going` is cleared to keep a job at work."""

    world: World
    operations: Operations
    going: threading.Event = field(default_factory=threading.Event)

    def contexts(self, progress: Progress) -> list[Context]:
        return [self.world.context(cloning=RULES, progress=Waiting(progress, self.going))]

    def overview(self) -> Overview:
        there, unreadable, problem = clones_of([self.world.context(cloning=RULES)])
        seen = host(replace(shop(), clone_lease=RULES.lease, clone_quota=RULES.quota, clone_masks=2))
        return replace(
            seen,
            looked=self.world.now,
            clones=there,
            unreadable_clones=unreadable,
            clones_problem=problem,
            may_clone=True,
        )

    def names(self) -> list[str]:
        return [c.clone.name for c in list_clones([self.world.context()]).clones]


@dataclass
class Waiting:
    """Progress that is told, and then waits until it may go on."""

    told: Progress
    going: threading.Event

    def phase(self, name: str, detail: str = "") -> None:
        self.told.phase(name, detail)
        self.going.wait()

    def advance(self, done: int, total: int, unit: str = "B") -> None:
        self.told.advance(done, total, unit)

    def note(self, said: str) -> None:
        self.told.note(said)


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with TemporaryDirectory(prefix="zb") as home:
        world = World(Path(home))
        with at_the_doors(lambda: world):
            lock = threading.RLock()

            def one_at_a_time(argv: tuple[str, ...], mutates: bool, act: Callable[[], Any]) -> Any:
                with lock:
                    return act()

            world.passing = one_at_a_time
            snapshot(world.context())
            machine = Machine(world, Operations(Path(home, "run")))
            machine.going.set()
            yield machine


@pytest.fixture(scope="module")
def cloning(machine: Machine) -> Iterator[Site]:
    class Reader(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            line, _, said = hear(self.request.fileno())
            question = reader.parse(said)
            if question.verb == "moment":
                answer_much(line, TypeAdapter(MomentPlan).dump_json(Told().moment("shop", machine.world.now)))
            else:
                answer_much(line, reader.obey(question, {}, machine.overview, machine.operations.read, fleet))

    class Cloner(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            line, _, said = hear(self.request.fileno())
            try:
                # Alarms ring in the main thread alone, and a process of zbackup's has no other.
                obey(line, parse(said), machine.contexts, machine.operations, lambda _: nullcontext())
            except ZbackupError as failure:
                answer(line, {"refused": str(failure)})

    with served(Reader, Cloner, lambda: machine.world.now) as site:
        yield site


@contextmanager
def held(machine: Machine) -> Iterator[None]:
    """A job does not get on meanwhile."""
    machine.going.clear()
    try:
        yield
    finally:
        machine.going.set()


def press(browser: Browser, label: str) -> None:
    browser.find_element("xpath", f"//main//button[normalize-space()='{label}']").click()


def ask_for_clone(browser: Browser, site: Site, name: str) -> None:
    browser.get(f"{site.address}/clones")
    browser.find_element("id", "name-1").send_keys(name)
    Select(browser.find_element("id", "lease-1")).select_by_visible_text("8 hours")
    press(browser, "Make it")


def sure(browser: Browser, label: str) -> None:
    form = f"//main//form[.//button[normalize-space()='{label}']]"
    browser.find_element("xpath", f"{form}//input[@name='sure']").click()
    press(browser, label)


@pytest.mark.parametrize("scripts", [True, False])
def test_a_clone_is_made_and_destroyed(cloning: Site, machine: Machine, *, scripts: bool) -> None:
    name = f"dev-{'with' if scripts else 'without'}-scripts"
    with started(scripts=scripts) as browser:
        sized(browser, 1000)
        log_in(browser, cloning)
        with held(machine):
            ask_for_clone(browser, cloning, name)
            until_said(browser, "It goes on whether or not you watch.")
            until_said(browser, "Asked for by")
            require_readable(browser)
        # It follows by itself, with JavaScript or without.
        until_said(browser, f"Done: {name} runs")
        assert machine.names() == [name]
        browser.find_element("partial link text", name).click()
        until_said(browser, "(quota)")
        assert "of 20.0 GiB (quota)" in text(browser)
        assert " hours" in text(browser)
        press(browser, "Show the address with its password")
        until_said(browser, "mysql://zbackup_clone:")
        Select(browser.find_element("id", "lease")).select_by_visible_text("3 days")
        press(browser, "Extend")
        until_said(browser, "Done: its lease ends")
        browser.get(f"{cloning.address}/clones/{name}")
        sure(browser, "Reset")
        until_said(browser, f"Done: {name} is as")
        browser.get(f"{cloning.address}/clones/{name}")
        press(browser, "Destroy")  # without the box the browser itself does not send it
        assert machine.names() == [name]
        sure(browser, "Destroy")
        until_said(browser, f"Done: {name} is destroyed")
        assert machine.names() == []
        browser.get(f"{cloning.address}/clones")
        until_said(browser, "There are no clones.")


def test_a_failure_says_why_and_everybody_can_read_it(
    cloning: Site, machine: Machine, tmp_path: Path
) -> None:
    with started() as browser:
        sized(browser, 1000)
        log_in(browser, cloning)
        ask_for_clone(browser, cloning, "mine")
        until_said(browser, "Done: mine runs")
        ask_for_clone(browser, cloning, "mine")
        until_said(browser, "Failed:")
        until_said(browser, "choose another --name")
        where = browser.current_url
        for width in (400, 1000):
            for dark in (False, True):
                sized(browser, width, dark=dark)
                for page in (where, f"{cloning.address}/clones/mine", f"{cloning.address}/clones"):
                    browser.get(page)
                    require_readable(browser)
                browser.get(f"{cloning.address}/instance/shop/moment?at=2026-11-21T09:02:00Z")
                require_readable(browser)
        pictures = Path(os.environ.get("ZBACKUP_PICTURES") or tmp_path)
        sized(browser, 900, 560)
        browser.get(f"{cloning.address}/clones")
        browser.save_screenshot(str(pictures / "web-clones.png"))
        browser.get(f"{cloning.address}/clones/mine")
        sure(browser, "Destroy")
        until(browser, lambda: machine.names() == [])
        until_said(browser, "Done: mine is destroyed")
