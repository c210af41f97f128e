"""What each engine offers for copying back."""

from contextlib import AbstractContextManager
from typing import Protocol

from zbackup.engines.base import ProductionAccess
from zbackup.features.copyback.copying import CopiedTable, CopyPlan, CopyStep, CopyWish, Difference
from zbackup.model.progress import Progress
from zbackup.model.recovery import Entrance


class CopySession(Protocol):
    """Sessions with a clone's server and with production's, for one copy."""

    def plan(self) -> CopyPlan:
        """Look at both sides and decide; changes nothing. Raise NotFound, Refused or Taken."""

    def compare(self, step: CopyStep) -> Difference:
        """Return how production's rows differ, for a step that changes rows; change nothing."""

    def act(self, plan: CopyPlan) -> tuple[CopiedTable, ...]:
        """Do it, in bounded transactions. Cut short, the same plan made again continues it.

        Nothing that production has is half exchanged at any moment. Raise VerificationFailed when a new table
        is not what the clone has.
        """


class Copier(ProductionAccess, Protocol):
    """Copies tables or collections out of a clone's server into the instance's own."""

    def admits(self, entrance: Entrance, wish: CopyWish) -> Entrance | None:
        """Return how a running clone lets us in to read what is wished; None if it does not.

        `entrance` without a user: try the copy's own account, which production may have had then.
        """

    def session(
        self, entrance: Entrance, wish: CopyWish, progress: Progress
    ) -> AbstractContextManager[CopySession]:
        """Open the sessions. Raise DatabaseError, or Refused where production takes no writes."""
