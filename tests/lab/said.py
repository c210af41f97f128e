"""A secret of a test's, which stands in no file."""

from dataclasses import dataclass

from zbackup.config.secret import SecretRef


@dataclass(frozen=True, slots=True)
class Said(SecretRef):
    """`where` is the secret itself."""

    def read(self) -> str:
        return self.where


def said(secret: str) -> SecretRef:
    return Said("env", secret)
