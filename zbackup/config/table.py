"""What all tables of the configuration have in common."""

from pydantic import BaseModel, ConfigDict


class Table(BaseModel):
    """One TOML table: unknown keys are refused, what was read never changes."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)
