"""The pages in a real browser: what a DBA does at three in the morning, on a phone, without JavaScript, by
keyboard; and the pictures for the docs, with ZBACKUP_PICTURES=docs/images."""

import os
from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys

from tests.browser.conftest import (
    Browser,
    Site,
    log_in,
    require_readable,
    sized,
    text,
    until,
    until_elsewhere,
    until_said,
)

PAGES = (
    "/",
    "/instance/shop",
    "/instance/shop/moment?at=-1h",
    "/clones",
    "/fleet",
    "/jobs",
    "/settings",
    "/login",
)


def seen(browser: Browser) -> str:
    """All that is said on the page that is shown and no wider than the screen."""
    assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    return text(browser)


def pick_a_moment(browser: Browser, site: Site) -> None:
    """From the overview to the command."""
    browser.get(f"{site.address}/")
    field = browser.find_element("id", "at-shop")
    field.send_keys("yesterday 10:02", Keys.ENTER)
    until_said(browser, "Yes: shop can be brought back to this moment")
    command = browser.find_element("css selector", ".command code").text
    assert command == "zbackup restore shop --to 2026-11-21T09:02:00Z"


def test_pick_a_moment_and_copy_the_command(browser: Browser, site: Site) -> None:
    sized(browser, 1000)
    pick_a_moment(browser, site)
    grant = {"origin": site.address, "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
    browser.execute_cdp_cmd("Browser.grantPermissions", grant)
    button = browser.find_element("css selector", "button.copy")
    button.click()
    until(browser, lambda: button.text == "Copied")
    copied = browser.execute_async_script("navigator.clipboard.readText().then(arguments[0])")
    assert copied == "zbackup restore shop --to 2026-11-21T09:02:00Z"


def test_clicks_lead_from_days_to_a_moment(browser: Browser, site: Site) -> None:
    sized(browser, 1000)
    browser.get(f"{site.address}/instance/shop")
    for _ in range(8):
        cells = browser.find_elements("css selector", "svg.wide a rect")
        before = browser.current_url
        cells[len(cells) // 2].click()
        until_elsewhere(browser, before)
        if "/moment" in browser.current_url:
            break
    assert "/moment?at=" in browser.current_url
    until_said(browser, "Yes:")


def test_without_javascript(plain: Browser, site: Site) -> None:
    sized(plain, 1000)
    plain.get("data:text/html,<body>no<script>document.body.textContent='yes'</script>")
    assert text(plain) == "no"
    pick_a_moment(plain, site)
    assert [b.is_displayed() for b in plain.find_elements("css selector", "button.copy")] == [False]
    plain.get(f"{site.address}/instance/shop")
    plain.find_element("link text", "Zoom in").click()
    until(plain, lambda: "from=" in plain.current_url)
    until(plain, lambda: "None in this view" in text(plain) or "No moment after" in text(plain))


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [400, 1000])
def test_who_has_never_seen_it_finds_the_four_answers(
    plain: Browser, site: Site, width: int, dark: bool
) -> None:
    """From the overview with two looks at the most, without JavaScript: all of it is in sight, no wider than
    the screen."""
    sized(plain, width, dark=dark)
    plain.get(f"{site.address}/")
    # What would I lose if this host burnt now? Which clones are running out?
    for question, answer in (
        ("Lost if this host burnt now", "The last 5 h 59 min"),
        ("Clones that run out within a day", "in 2 hours"),
    ):
        said = seen(plain)
        assert said.index(question) < said.index(answer)
    # Why is this gap there?
    plain.find_element("partial link text", "1 gap").click()
    until_said(plain, "No moment after 2026-11-20 20:58:10 CET and up to 2026-11-20 23:38:10 CET")
    heading = plain.find_element("id", "gaps")
    # To a part of a pixel, by which a page is scrolled or not.
    top = "return arguments[0].getBoundingClientRect().y"
    until(plain, lambda: -5 < plain.execute_script(top, heading) < 450)
    assert "The server purged binlog.000041 to binlog.000043 before a backup held them" in seen(plain)
    # Can I get back to yesterday 10:02?
    pick_a_moment(plain, site)
    assert "about 2 min 24 s" in seen(plain)


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("width", [400, 1000])
def test_everybody_can_read_it(browser: Browser, site: Site, page: str, width: int) -> None:
    for dark in (False, True):
        sized(browser, width, dark=dark)
        browser.get(f"{site.address}{page}")
        require_readable(browser)


def test_by_keyboard(browser: Browser, site: Site) -> None:
    sized(browser, 1000)
    browser.get(f"{site.address}/")
    seen = []
    for _ in range(13):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        focused = browser.switch_to.active_element
        seen.append(focused.get_attribute("aria-label") or focused.text or focused.get_attribute("id"))
        outline = browser.execute_script("return getComputedStyle(arguments[0]).outlineStyle", focused)
        assert outline == "solid"
    assert seen[0] == "Skip to content"
    assert seen[1:6] == ["Overview", "Fleet", "Clones", "Jobs", "Settings"]
    assert "Timeline of shop" in seen


def test_nothing_is_blocked_or_missing(browser: Browser, site: Site) -> None:
    browser.get_log("browser")  # type: ignore[no-untyped-call]
    for page in PAGES:
        browser.get(f"{site.address}{page}")
    assert browser.get_log("browser") == []  # type: ignore[no-untyped-call]


def test_pictures_for_the_docs(browser: Browser, site: Site, tmp_path: Path) -> None:
    where = Path(os.environ.get("ZBACKUP_PICTURES") or tmp_path)
    for name, page, width, height, dark in (
        ("overview", "/", 900, 820, False),
        ("timeline", "/instance/shop", 900, 760, False),
        ("moment", "/instance/shop/moment?at=yesterday+10:02", 900, 660, True),
        ("fleet", "/fleet", 900, 480, False),
        ("phone", "/instance/shop", 400, 860, False),
    ):
        sized(browser, width, height, dark=dark)
        browser.get(f"{site.address}{page}")
        file = where / f"web-{name}.png"
        browser.save_screenshot(str(file))
        assert file.stat().st_size > 10_000


def test_log_out_at_last(browser: Browser, site: Site) -> None:
    sized(browser, 1000)
    browser.get(f"{site.address}/")
    browser.find_element("css selector", "header button").click()
    until_said(browser, "zbackup web --login")
    browser.get(f"{site.address}/clones")
    until(browser, lambda: browser.current_url == f"{site.address}/login")
    log_in(browser, site)
    link = site.link()
    browser.get(link)
    browser.find_element("css selector", "main button").click()
    until(browser, lambda: browser.current_url == f"{site.address}/")
    browser.get(link)
    browser.find_element("css selector", "main button").click()
    until_said(browser, "used already")
