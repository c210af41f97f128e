"""The undoer of an instance, by its engine. Only what the engine takes is imported."""

from typing import TYPE_CHECKING, cast

from zbackup.config.settings import Instance
from zbackup.features.undo.ports import Undoer

if TYPE_CHECKING:
    from zbackup.engines.mongodb.options import ConnectOptions as MongoConnectOptions
    from zbackup.engines.mysql.options import ConnectOptions


def undoer(instance: Instance, usual: "ConnectOptions | MongoConnectOptions") -> Undoer:
    """`usual` is how the instance's own account logs in."""
    if instance.engine == "mongodb":
        from zbackup.engines.mongodb.production.account import MongoAccount
        from zbackup.features.undo.mongodb.session import MongoUndoer

        to = cast("MongoConnectOptions", usual)
        return MongoUndoer(account=MongoAccount(instance=instance.name, usual=to, rules=instance.copy_back))
    from zbackup.engines.mysql.production.account import ProductionAccount
    from zbackup.features.undo.mysql.session import MysqlUndoer

    here = cast("ConnectOptions", usual)
    account = ProductionAccount(instance=instance.name, usual=here, rules=instance.copy_back)
    return MysqlUndoer(account=account)
