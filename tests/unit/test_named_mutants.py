"""The named mutants can be put into the product as it is; that each is found, `make mutants` shows."""

from pathlib import Path

import pytest

from tests.mutants.named import NAMED, Mutant

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mutant", NAMED, ids=lambda mutant: mutant.name)
def test_what_is_to_be_changed_is_there_once(mutant: Mutant) -> None:
    assert (ROOT / mutant.file).read_text().count(mutant.old) == 1
    assert all((ROOT / test).exists() for test in mutant.tests)
