"""Statements of the documentation about files and properties are true."""

import re
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from zbackup.config.load import parse
from zbackup.engines.mongodb.server.privileges import role_document
from zbackup.engines.mysql.server.privileges import GRANTS
from zbackup.model.clock_reading import Reading
from zbackup.model.clone import Clone
from zbackup.model.log import LogSpan
from zbackup.model.record import Record, to_properties

PROJECT = Path(__file__).resolve().parents[3]
DOCS = PROJECT / "docs"
PAGES = [PROJECT / "README.md", PROJECT / "SECURITY.md", *sorted(DOCS.rglob("*.md"))]
PAGES += [PROJECT / "CONTRIBUTING.md", *sorted((PROJECT / "contrib").rglob("*.md"))]
NOW = datetime(2026, 11, 21, tzinfo=UTC)
RECORD = Record(
    backup="b",
    instance="shop",
    engine="mysql",
    members=(("tank/mysql", "/tank/mysql"),),
    taken=NOW,
    lock="ftwrl",
    server_uuid="u",
    server_version="9.7.4",
    role="primary",
    position="binlog.000001:158",
    gtid="u:1",
    lock_wait_ms=1,
    lock_held_ms=2,
)
CLONE = Clone(
    id="i", name="n", instance="shop", engine="mysql", kind="restore", state="ready", created=NOW, backup="b"
)


def headings(page: Path) -> set[str]:
    """Anchors of a page, made as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in headings(target), link


def test_every_page_is_in_the_index() -> None:
    linked = {
        (DOCS / link).resolve() for link in re.findall(r"\]\(([^)#]+)\)", (DOCS / "README.md").read_text())
    }
    own = {page for page in linked if page.is_relative_to(DOCS)}  # others are beside what they are about
    assert own == {page for page in PAGES if page.is_relative_to(DOCS) and page.name != "README.md"}


def test_every_property_is_in_the_reference() -> None:
    page = (DOCS / "reference" / "record-properties.md").read_text()
    clock = Reading("boot", 1.0, synchronised=True)
    finished = replace(RECORD, as_of=NOW, complete_to=NOW, clock=clock, since=NOW).with_log(
        "log", LogSpan("a.1:4", "a.1:5")
    )
    written = to_properties(finished)
    assert set(re.findall(r"^\| `(zbackup:(?!clone)\w+)`", page, flags=re.M)) == set(written)
    described = page[page.index("`zbackup:clone` holds") :]
    assert [name for name in asdict(CLONE) if f"`{name}`" not in described] == []


def test_the_grants_are_those_the_code_needs() -> None:
    page = (DOCS / "how-to" / "set-up-accounts-and-privileges.md").read_text()
    for grant in (grant for grants in GRANTS.values() for grant in grants):
        assert f"GRANT {grant} TO zbackup@localhost;" in page


@pytest.mark.parametrize("name", ["set-up-accounts-and-privileges.md", "back-up-mongodb.md"])
def test_mongodbs_role_is_the_one_the_code_needs(name: str) -> None:
    """The lab's servers give zbackup this very role, so that every test runs with it."""
    page = (DOCS / "how-to" / name).read_text()
    found = re.findall(r"resource: {(.*?)}, actions: \[(.*?)\]", page, flags=re.S)
    documented = [(re.findall(r'"([^"]+)"', r), re.findall(r'"([^"]+)"', actions)) for r, actions in found]
    needed = [
        ([v for v in p["resource"].values() if isinstance(v, str)], p["actions"])
        for p in role_document()["privileges"]
    ]
    assert documented == needed


def test_the_configuration_in_the_readme_is_one() -> None:
    examples = re.findall(r"^```toml\n(.*?)^```", (PROJECT / "README.md").read_text(), flags=re.M | re.S)
    assert [list(parse(text).instance) for text in examples] == [["shop"]]


def test_every_test_that_is_named_as_a_proof_is_there() -> None:
    named = re.findall(r"`(tests/[^`]+)`", (PROJECT / "SECURITY.md").read_text())
    assert len(named) > 10
    assert [name for name in named if not list(PROJECT.glob(name))] == []
