"""Words for what is known of a moment apart from the wall clock: enough to tell how much time certainly
passed since.
"""

from dataclasses import dataclass

from zbackup.model import bounds

MOST_BOOT = 64
LONGEST_UPTIME = 1e10


@dataclass(frozen=True, slots=True)
class Reading:
    """`boot` identifies a run of the machine and `uptime` is in seconds since its start, sleep included.

    `synchronised`: the wall clock was kept right over the network. `str()` and `parse` are for a property.
    """

    boot: str
    uptime: float
    synchronised: bool

    @classmethod
    def parse(cls, text: str) -> "Reading":
        """Raise ValueError unless `text` is what str() wrote."""
        boot, uptime, word, *more = [*text.split(" "), "", "", ""]
        if word not in ("synchronised", "free") or any(more):
            raise ValueError(f"{bounds.shown(text)} is no reading of a clock")
        uptime_s = bounds.seconds(uptime, LONGEST_UPTIME)
        return cls(bounds.text(boot, MOST_BOOT), uptime_s, word == "synchronised")

    def __str__(self) -> str:
        return f"{self.boot} {self.uptime:.3f} {'synchronised' if self.synchronised else 'free'}"
