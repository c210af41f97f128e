"""The plot of the benchmarks."""

from xml.etree import ElementTree

import pytest

from bench.plot import Series, plot

FLAT = Series("zbackup", [(0.3, 5.0), (1.0, 5.1), (3.0, 5.0)])
RISING = Series("dump & load", [(0.3, 30.0), (1.0, 100.0)])


def test_it_is_a_picture_with_every_line_named() -> None:
    said = plot("From <here>", "GiB", {"mysql": [FLAT, RISING], "mariadb": [FLAT]})
    texts = [e.text for e in ElementTree.fromstring(said).iter() if e.tag.endswith("text")]
    assert {"From <here>", "zbackup: 5.0", "dump & load: 100.0", "mysql", "mariadb"} <= set(texts)


def test_a_line_without_points_is_left_out() -> None:
    said = plot("t", "x", {"mysql": [FLAT, Series("nobody measured it", [])]})
    assert "nobody" not in said


def test_nothing_is_no_picture() -> None:
    with pytest.raises(ValueError, match="nothing to plot"):
        plot("t", "x", {"mysql": []})
