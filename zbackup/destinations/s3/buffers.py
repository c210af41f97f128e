"""Memory for segments: bounded, and used again, since new memory is cleared first, by kernel and Python."""

from queue import SimpleQueue

from zbackup.destinations.s3.keys import NONCE, TAG


class Buffers:
    """At most `most` buffers for segments of `size` bytes, used again and again by several threads.

    `front` and `back` are the bytes that encryption needs before and behind the content; 0 if not `sealed`.
    """

    def __init__(self, most: int, size: int, *, sealed: bool) -> None:
        self.size = size
        self.front, self.back = (NONCE, TAG) if sealed else (0, 0)
        self._unmade = most
        self._free: SimpleQueue[bytearray | None] = SimpleQueue()

    def take(self) -> bytearray:
        """One that nobody uses; waits until there is one. It holds whatever was in it."""
        if self._free.empty() and self._unmade:
            self._unmade -= 1
            return self._new()
        return self._free.get() or self._new()

    def give(self, buffer: bytearray) -> None:
        """It is not used any more. One that was made shorter is not kept."""
        self._free.put(buffer if len(buffer) == self._length else None)

    @property
    def _length(self) -> int:
        return self.front + self.size + self.back

    def _new(self) -> bytearray:
        return bytearray(self._length)
