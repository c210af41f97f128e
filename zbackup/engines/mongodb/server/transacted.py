"""Commands within one transaction, and documents as the bytes that are stored."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from bson.codec_options import CodecOptions, DatetimeConversion
from bson.raw_bson import RawBSONDocument

from zbackup.model.errors import DatabaseError

Document = dict[str, Any]


class Reply(Document):
    """A document of an answer, at any depth. Asking it for what is not there raises DatabaseError."""

    def __missing__(self, name: str) -> NoReturn:
        raise DatabaseError(f'the server gave an answer without "{name}"')


REPLIES: CodecOptions[Document] = CodecOptions(document_class=Reply, unicode_decode_error_handler="replace")
# Python has no dates before the year 1 and after 9999: those stay numbers.
RAW: CodecOptions[RawBSONDocument] = CodecOptions(
    document_class=RawBSONDocument, datetime_conversion=DatetimeConversion.DATETIME_AUTO
)


@dataclass(frozen=True, slots=True)
class Transacted:
    """Commands within one transaction."""

    client: Any
    session: Any

    def run(self, database: str, command: Mapping[str, Any]) -> Document:
        """Run a command. One that writes ends the transaction where a document is refused: see Connection."""
        said: Document = self.client[database].command(
            dict(command), codec_options=REPLIES, session=self.session
        )
        return said

    def documents(self, collection: tuple[str, str], wanted: Mapping[str, Any]) -> list[RawBSONDocument]:
        """Documents of (database, collection) as the transaction sees them."""
        database, name = collection
        found = self.client[database].get_collection(name, codec_options=RAW)
        return list(found.find(dict(wanted), session=self.session))
