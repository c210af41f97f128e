"""Real servers for the lab, fetched once into the cache, with data directories to copy.

    python3 -m tests.lab.servers fetch [NAME...]
    python3 -m tests.lab.servers list
    python3 -m tests.lab.servers path NAME

Standard library only: `lab up` runs this before any virtual environment exists.
"""

from collections.abc import Sequence
from pathlib import Path

from tests.lab.progress import say, step
from tests.lab.servers import brought, fetch, places, templates
from tests.lab.servers.places import ServerUnavailable
from tests.lab.servers.recipes import RECIPES, Recipe

__all__ = ["NAMES", "ServerUnavailable", "ensure", "installed", "path", "template"]

NAMES = tuple(RECIPES)


def ensure(names: Sequence[str] = NAMES) -> dict[str, Path]:
    """Fetch what is missing of the named servers, prepare their data directories, return where each is.

    Says what it does while it takes time, and nothing when all is there. Raises ServerUnavailable.
    """
    return {name: _ensure(brought.stand_in(name)) for name in names}


def installed(name: str) -> Path | None:
    """Directory of the server with its programs in bin/, or None if it was not fetched."""
    name = brought.stand_in(name)
    prefix = brought.named().get(name)
    return fetch.installed(_recipe(name)) if prefix is None else brought.install(name, prefix)


def path(name: str) -> Path:
    """Directory of the server with its programs in bin/. Raises ServerUnavailable if not fetched."""
    found = installed(name)
    if found is None:
        raise ServerUnavailable(f"{name} is not there: python3 -m tests.lab.servers fetch {name}")
    return found


def template(name: str) -> Path:
    """The data directory to copy for the database server `name`. Raises ServerUnavailable if not prepared."""
    meant = brought.stand_in(name)
    found = templates.prepared(meant, path(name)) if meant in templates.KINDS else None
    if found is None:
        raise ServerUnavailable(f"{name} has no template: python3 -m tests.lab.servers fetch {name}")
    return found


def _recipe(name: str) -> Recipe:
    try:
        return RECIPES[name]
    except KeyError:
        raise ServerUnavailable(f"no server {name!r}; there are: {', '.join(NAMES)}") from None


def _ensure(name: str) -> Path:
    prefix = brought.named().get(name)
    home = _fetched(_recipe(name)) if prefix is None else brought.install(name, prefix)
    if name in templates.KINDS and templates.prepared(name, home) is None:
        with step(f"preparing a data directory for {name}"):
            templates.prepare(name, home, places.log_file())
    return home


def _fetched(recipe: Recipe) -> Path:
    home = fetch.installed(recipe)
    if home is None:
        with step(f"fetching {recipe.name}"):
            home = fetch.install(recipe, places.log_file())
        say(f"{recipe.name} is in {home}")
    return home
