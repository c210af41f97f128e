"""Names and texts that an attacker would give, and servers take."""

from hypothesis import strategies as st

LONGEST = 64
_PIECES = (
    *("`", "``", "'", '"', "\\", "\\'", "\n", "\r", "\t", "\x01", "\x1a", "\x7f", ";", "--", "-- ", "#"),
    *("/*", "*/", "/*!", "/*!50000 ", "/*M!", "(", ")", ",", ".", "@", "$$", "%s", "{", "}", "\u2028"),
    *("` (`id`) ", "\n  KEY `", "`(id))SELECT 1 -- ", "x", "KEY", "\u00e4", "\U0001f600"),
)
TEXTS = st.lists(st.sampled_from(_PIECES) | st.characters(exclude_categories=["Cs"]), max_size=40).map(
    "".join
)
NAMES = TEXTS.map(lambda text: text.replace("\0", "")[:LONGEST]).filter(bool)
