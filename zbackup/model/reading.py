"""What is known of a moment besides the wall clock: enough to tell how much time certainly passed since."""

from dataclasses import dataclass


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
        boot, uptime, word = text.split(" ")
        if word not in ("synchronised", "free"):
            raise ValueError(f"{text!r} is no reading of a clock")
        return cls(boot, float(uptime), word == "synchronised")

    def __str__(self) -> str:
        return f"{self.boot} {self.uptime:.3f} {'synchronised' if self.synchronised else 'free'}"
