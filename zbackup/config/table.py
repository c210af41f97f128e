"""The base of all tables of the configuration."""

from pydantic import BaseModel, ConfigDict


class SettingsTable(BaseModel):
    """One TOML table: unknown keys are refused, what was read never changes."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True, defer_build=True)
