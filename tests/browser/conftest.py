"""A real browser, and the pages of a host that was made up, served as `zbackup web` serves them."""

import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from pydantic import TypeAdapter
from selenium import webdriver
from selenium.common.exceptions import (
    NoSuchElementException,
    StaleElementReferenceException,
    WebDriverException,
)
from selenium.webdriver.support.wait import WebDriverWait

from tests.lab import apt, host_packages
from tests.unit.web.host import NOW, Told
from zbackup.features.webpage.overview.reader import parse
from zbackup.model import bounds
from zbackup.model.fleet import Fleet
from zbackup.model.overview import Marks, MomentPlan, Overview
from zbackup.model.run import JobRun
from zbackup.proc.helper_socket import answer_much, ask, hear
from zbackup.web.server import LOGIN_SOCKET, Listening, serve

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--lang=en",
)
Browser = webdriver.Chrome
LIMIT_S = 300.0
"""A loaded machine takes its time: what waits that long has failed."""
PASSING = (NoSuchElementException, StaleElementReferenceException)
"""A page that is on its way to the next."""


@dataclass(frozen=True, slots=True)
class Site:
    """Where it is served, and where links are asked for."""

    address: str
    run_dir: Path

    def link(self) -> str:
        """As `zbackup web --login` prints it."""
        return str(ask(self.run_dir / LOGIN_SOCKET, {})["link"])


class _Reader(socketserver.BaseRequestHandler):
    """What the reader's socket says, of a host that was made up."""

    def handle(self) -> None:
        told = Told()
        line, _, said = hear(self.request.fileno())
        question = parse(said)
        match question.verb:
            case "overview":
                answer_much(line, TypeAdapter(Overview).dump_json(replace(told.overview(), fleet=True)))
            case "history":
                answer_much(line, TypeAdapter(tuple[JobRun, ...]).dump_json(told.history()))
            case "fleet":
                answer_much(line, TypeAdapter(Fleet).dump_json(told.fleet()))
            case "moment":
                plan = told.moment(question.instance, bounds.moment(question.since))
                answer_much(line, TypeAdapter(MomentPlan).dump_json(plan))
            case _:
                times = bounds.moment(question.since), bounds.moment(question.until)
                answer_much(line, TypeAdapter(Marks).dump_json(told.marks(question.instance, *times)))


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with served(_Reader, _Nobody) as found:
        yield found


Handler = type[socketserver.BaseRequestHandler]


class _Nobody(socketserver.BaseRequestHandler):
    """Where clones are not made from the page nobody answers."""


@contextmanager
def served(reader: Handler, cloner: Handler, clock: Callable[[], datetime] = lambda: NOW) -> Iterator[Site]:
    """The page, with these two at the sockets where it asks."""
    # A socket's path is short.
    with TemporaryDirectory(prefix="zb") as name, socket.socket() as probe:
        home = Path(name)
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        with ExitStack() as open_:
            for handler, path in ((reader, "read"), (cloner, "clone")):
                server = socketserver.ThreadingUnixStreamServer(str(home / path), handler)
                open_.enter_context(server)
                open_.callback(server.shutdown)
                threading.Thread(target=server.serve_forever, daemon=True).start()
            listening = Listening(port=port)
            arguments = (listening, home / "read", home / "clone", home / "run", clock)
            threading.Thread(target=serve, args=arguments, daemon=True).start()
            found = Site(f"http://127.0.0.1:{port}", home / "run")
            _wait(found, port)
            yield found


def _wait(site: Site, port: int) -> None:
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0 and (site.run_dir / LOGIN_SOCKET).exists():
                return
        time.sleep(0.1)
    raise AssertionError("the page is not served")


def until(browser: Browser, condition: Callable[[], object]) -> None:
    """Wait until that is so. A click that leads to another page returns before that page is there."""

    def looked(_: Browser) -> object:
        try:
            return condition()
        except WebDriverException as wrong:
            if "does not belong to the document" in str(wrong):  # chromedriver's word for the page before
                return None
            raise

    WebDriverWait(browser, LIMIT_S, ignored_exceptions=PASSING).until(looked)


def text(browser: Browser) -> str:
    return str(browser.find_element("css selector", "body").text)


def until_said(browser: Browser, wanted: str) -> None:
    """Wait until the page says that."""
    until(browser, lambda: wanted in text(browser))


def until_elsewhere(browser: Browser, address: str) -> None:
    """Wait until it is not at this address any more."""
    until(browser, lambda: browser.current_url != address)


def log_in(browser: Browser, site: Site) -> None:
    """By a link, as far as the overview."""
    browser.get(site.link())
    browser.find_element("css selector", "main button").click()
    until(browser, lambda: browser.current_url == f"{site.address}/")


def sized(browser: Browser, width: int, height: int = 900, *, dark: bool = False) -> None:
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})


HERE = Path(__file__).parent
CONTRAST = (HERE / "contrast.js").read_text()
NAMES = (HERE / "names.js").read_text()


def require_readable(browser: Browser) -> None:
    """Everybody can read the page that is shown, and it is no wider than the screen."""
    assert browser.execute_script(CONTRAST) == []
    assert browser.execute_script(NAMES) == []
    assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")


@contextmanager
def started(*, scripts: bool = True) -> Iterator[Browser]:
    """A browser of its own, with a profile that nobody used."""
    host_packages.ensure(apt.cache_root() / "browser.log", host_packages.BROWSER)
    with TemporaryDirectory(prefix="zb") as profile:
        options = webdriver.ChromeOptions()
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        if not scripts:
            off = {"profile.managed_default_content_settings.javascript": 2}
            options.add_experimental_option("prefs", off)
        options.binary_location = host_packages.BROWSER["chromium"]
        service = webdriver.ChromeService(host_packages.BROWSER["chromium-driver"])
        browser = Browser(options=options, service=service)
        try:
            yield browser
        finally:
            browser.quit()


@pytest.fixture(scope="module")
def browser(site: Site) -> Iterator[Browser]:
    """Logged in by a link."""
    with started() as found:
        log_in(found, site)
        yield found


@pytest.fixture(scope="module")
def plain(site: Site) -> Iterator[Browser]:
    """The same, without JavaScript."""
    with started(scripts=False) as found:
        log_in(found, site)
        yield found
