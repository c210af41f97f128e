"""The base of all tables of the configuration."""

import os

from pydantic import BaseModel, ConfigDict

# With them pydantic looks through all that is installed, and imports what calls itself its plugin.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")


class Table(BaseModel):
    """One TOML table: unknown keys are refused, what was read never changes."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)
