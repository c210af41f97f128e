"""Worlds of MongoDB servers: each writes to databases of its own, whose names begin with w_. See worlds."""

import datetime
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import bson
import gridfs
from pymongo import ASCENDING, DeleteOne, IndexModel, InsertOne, UpdateOne, WriteConcern
from pymongo.collation import Collation
from pymongo.errors import BulkWriteError, DuplicateKeyError, OperationFailure

from tests.odd.worlds import Stage, World

FAR = datetime.datetime(2037, 1, 1, tzinfo=datetime.UTC)
MIB = 1 << 20


def _world(act: Callable[[Stage, Any], None], name: str) -> World:
    def told(stage: Stage) -> None:
        act(stage, stage.session[f"w_{name}"])

    return World(kinds=("mongodb",), setup=(told,), each=(told,))


def _time_series(stage: Stage, db: Any) -> None:
    n = stage.number
    if n == 0:
        options = {"timeField": "t", "metaField": "m", "granularity": "seconds"}
        db.create_collection("weather", timeseries=options, expireAfterSeconds=10**9)
    since = datetime.datetime(2030, 1, 1 + n, tzinfo=datetime.UTC)
    minute = datetime.timedelta(minutes=1)
    db.weather.insert_many([{"t": since + k * minute, "m": k % 3, "v": k / 7} for k in range(200)])
    db.weather.create_index([("m", 1), ("t", -1)])
    db.weather.delete_many({"m": n % 3})
    if n == 2:
        db.command("collMod", "weather", timeseries={"granularity": "hours"})
    if n == 3:
        db.command("collMod", "weather", expireAfterSeconds="off")


def _capped(stage: Stage, db: Any) -> None:
    n = stage.number
    if n == 0:
        db.create_collection("ring", capped=True, size=8192, max=50)
        db.plain.insert_many([{"_id": k, "v": "x" * 100} for k in range(100)])
    db.ring.insert_many([{"n": n, "k": k, "v": "x" * 60} for k in range(70)])
    db.ring.update_one({"n": n}, {"$set": {"v": "y" * 60}})
    if n == 1:
        db.command("convertToCapped", "plain", size=4096)
    if n == 2:
        db.command("collMod", "ring", cappedSize=16384, cappedMax=90)
    if n == 3:
        db.command("cloneCollectionAsCapped", "ring", toCollection="other", size=4096)


def _clustered(stage: Stage, db: Any) -> None:
    n = stage.number
    if n == 0:
        db.create_collection("c", clusteredIndex={"key": {"_id": 1}, "unique": True, "name": "its own"})
    db.c.insert_many([{"_id": f"{n}-{k}", "v": k} for k in range(50)])
    db.c.delete_many({"_id": {"$gte": f"{n}-3", "$lt": f"{n}-4"}})
    if n == 2:
        db.command("collMod", "c", expireAfterSeconds=10**9)
        db.c.create_index("v", sparse=True)


def _lives(stage: Stage, db: Any) -> None:
    n = stage.number
    db.t.insert_many([{"until": FAR, "a": n, "b": k} for k in range(20)])
    match n:
        case 0:
            db.t.create_index("until", expireAfterSeconds=3600, name="ttl")
            db.t.create_index([("a", 1), ("b", 1)], name="both")
        case 1:
            keys = {"name": "ttl", "expireAfterSeconds": 10**8}
            db.command("collMod", "t", index=keys)
            db.command("collMod", "t", index={"name": "both", "hidden": True})
        case 2:
            db.command("collMod", "t", index={"name": "both", "prepareUnique": True})
            db.command("collMod", "t", index={"name": "both", "unique": True})
            db.t.create_index("plain")
            db.command("collMod", "t", index={"name": "plain_1", "expireAfterSeconds": 5})
        case 3:
            db.t.drop_index("ttl")
            db.t.create_index("until", expireAfterSeconds=7, partialFilterExpression={"a": {"$gt": 99}})


def _views(stage: Stage, db: Any) -> None:
    n = stage.number
    if n == 0:
        german = Collation("de", strength=1)
        db.create_collection("v", viewOn="t", pipeline=[{"$match": {"n": {"$gt": 1}}}], collation=german)
    db.t.insert_many([{"n": n, "k": k} for k in range(30)])
    db.t.aggregate([{"$group": {"_id": "$n", "sum": {"$sum": "$k"}}}, {"$out": "out"}])
    merge = {"into": {"db": "w_views2", "coll": "merged"}, "whenMatched": "replace"}
    db.t.aggregate([{"$group": {"_id": "$k", "sum": {"$sum": "$n"}}}, {"$merge": merge}])
    if n == 2:
        db.command("collMod", "v", viewOn="out", pipeline=[])
    if n == 3:
        db.drop_collection("v")
        db.create_collection("w", viewOn="v", pipeline=[{"$project": {"_id": 0}}])


def _collations(stage: Stage, db: Any) -> None:
    n = stage.number
    if n == 0:
        db.create_collection("c", collation=Collation("sv", strength=2, numericOrdering=True))
        db.c.create_index("name", unique=True)
        db.c.create_index("name", name="binary", collation=Collation("simple"))
    db.c.insert_many([{"name": f"Ärla {n}{k}"} for k in range(10)])
    db.c.delete_one({"name": f"äRLA {n}3"})
    db.c.update_many({"name": {"$gt": f"ärla {n}5"}}, {"$set": {"later": n}})
    try:
        db.c.insert_one({"name": f"ÄRLA {n}1"})
        raise AssertionError("two of a name")
    except DuplicateKeyError:
        pass


def _large(stage: Stage, db: Any) -> None:
    n = stage.number
    db.t.insert_one({"_id": n, "v": bytes([n]) * (5 * MIB)})
    db.t.update_one({"_id": n}, {"$set": {"w": "end"}, "$unset": {"v": ""}})

    def write(session: Any) -> None:
        for k in range(3):
            db.u.insert_one({"n": n, "k": k, "v": f"{k}" * MIB}, session=session)
        db.u.update_many({"n": n - 1}, {"$set": {"v": "small"}}, session=session)

    with stage.session.start_session() as session:
        session.with_transaction(write)


def _images(stage: Stage, db: Any) -> None:
    n = stage.number
    if n == 0:
        db.create_collection("t", changeStreamPreAndPostImages={"enabled": True})
    db.t.insert_many([{"_id": 100 * n + k, "v": k} for k in range(20)])
    db.t.update_many({"_id": {"$mod": [3, 1]}}, {"$inc": {"v": 1}})
    db.t.delete_many({"_id": {"$mod": [7, n]}})
    if n == 2:
        db.command("collMod", "t", changeStreamPreAndPostImages={"enabled": False})


def _transactions(stage: Stage, db: Any) -> None:
    n, client = stage.number, stage.session

    def write(session: Any) -> None:
        db[f"made{n}"].create_index("x", session=session)
        db[f"made{n}"].insert_one({"_id": n}, session=session)
        client.w_transactions2.t.insert_many([{"n": n, "k": k} for k in range(10)], session=session)
        client.w_transactions2.t.delete_many({"n": n, "k": {"$gt": 7}}, session=session)

    def again(session: Any) -> None:
        client.w_transactions2.t.update_many({"n": {"$lt": n}}, {"$inc": {"later": 1}}, session=session)

    with client.start_session() as session:
        session.with_transaction(write)
        session.start_transaction()
        db.gone.insert_one({"n": n}, session=session)
        session.abort_transaction()
        session.with_transaction(again, write_concern=WriteConcern("majority", j=True))


def _renames(stage: Stage, db: Any) -> None:
    n, rename = stage.number, "renameCollection"
    db[f"t{n}"].insert_many([{"n": n, "k": k} for k in range(150)])
    db[f"t{n}"].create_index("k", unique=True)
    admin = stage.session.admin
    if n:
        admin.command(rename, f"w_renames.t{n - 1}", to=f"w_renames2.from {n}")
        db[f"t{n}"].insert_one({"n": n, "k": 999})
    if n == 2:
        db.t2.rename("t9")
        db.t9.rename("t2")
        db.other.insert_one({"gone": 1})
        db.t2.rename("other", dropTarget=True)
        db.other.rename("t2")
    if n == 3:
        admin.command(rename, "w_renames2.from 1", to="w_renames2.from 2", dropTarget=True)


def _retryable(stage: Stage, db: Any) -> None:
    n = stage.number
    for k in range(20):
        db.t.find_one_and_update({"_id": k}, {"$inc": {"v": n}, "$push": {"a": n}}, upsert=True)
    db.t.find_one_and_delete({"_id": n})
    db.t.find_one_and_replace({"_id": n + 5}, {"new": n})
    work = [InsertOne({"_id": 1000 + n}), InsertOne({"_id": 3}), DeleteOne({"_id": 19 - n})]
    work += [InsertOne({"_id": 1000 + n}), UpdateOne({"_id": 7}, {"$set": {"u": n}}, upsert=True)]
    with suppress(BulkWriteError):
        db.t.bulk_write(work, ordered=False)
    db.get_collection("t", write_concern=WriteConcern(w=0)).insert_one({"_id": f"unheard {n}"})
    db.command("ping")


def _indexes(stage: Stage, db: Any) -> None:
    n = stage.number
    places = [{"type": "Point", "coordinates": [k, n]} for k in range(60)]
    db.t.insert_many([{"p": p, "s": f"word{n}", "deep": {"x": n}, "a": [n, n]} for p in places])
    match n:
        case 0:
            db.t.create_indexes([IndexModel([("p", "2dsphere")]), IndexModel([("s", "text")])])
        case 1:
            db.t.create_indexes([IndexModel([("deep.$**", ASCENDING)]), IndexModel([("s", "hashed")])])
            db.t.create_index("a", partialFilterExpression={"s": {"$type": "string"}})
        case 2:
            db.t.drop_index("s_text")
            db.t.create_index([("s", 1), ("_id", "hashed")])
            with suppress(OperationFailure):
                db.t.create_index("s", unique=True, name="fails")
        case 3:
            db.t.drop_indexes()
            db.t.create_index([("$**", 1)], wildcardProjection={"p": 0})


def _validators(stage: Stage, db: Any) -> None:
    n = stage.number
    if n == 0:
        schema = {"$jsonSchema": {"required": ["v"], "properties": {"v": {"bsonType": "int"}}}}
        db.create_collection("t", validator=schema, validationAction="error")
    db.t.insert_one({"v": n})
    with suppress(OperationFailure):
        db.t.insert_one({"v": "text"})
    db.t.insert_one({"no": n}, bypass_document_validation=True)
    if n == 1:
        db.command("collMod", "t", validationLevel="moderate", validationAction="warn")
    if n == 3:
        db.command("collMod", "t", validator={})


def _names(stage: Stage, db: Any) -> None:
    n, client = stage.number, stage.session
    other = client["w_数据-'x"]
    for collection in ("таблица.1", "with space", "quote's", "a.b.c", "%41[x]*", "system_x"):
        other[collection].insert_one({"_id": n, "a.b": 1, "$c": {"$d": n}, "": "empty", "ü": None})
        other[collection].create_index([(f"deep.very.{n}", 1)], name=f"ö {n}", sparse=True)
    if n == 2:
        client.drop_database("w_数据-'x")
    if n == 3:
        other["таблица.1"].drop()


def _files(stage: Stage, db: Any) -> None:
    n = stage.number
    files = gridfs.GridFS(db)
    stage.kept[str(n)] = files.put(bytes(range(256)) * 4000, filename=f"f{n}", n=n)
    if n > 1:
        files.delete(stage.kept[str(n - 1)])


def _types(stage: Stage, db: Any) -> None:
    n = stage.number
    deep: dict[str, Any] = {"n": n}
    for _ in range(90):
        deep = {"d": deep}
    values = [
        bson.Decimal128("NaN"), bson.Decimal128("-0E+10"), bson.MinKey(), bson.MaxKey(), bson.Int64(2**62),
        bson.Binary(b"\xff\x00", 128), bson.Binary(uuid.UUID(int=n).bytes, 4), bson.Regex("^ü", "im"),
        bson.Code("f()", {"x": n}), bson.Timestamp(7, n), bson.DBRef("t", n), float("nan"), -0.0,
        datetime.datetime(1, 1, 1, tzinfo=datetime.UTC), None, [], {}, [[[]]], "nul\x00within", deep,
    ]  # fmt: skip
    db.t.insert_many([{"_id": {"n": n, "k": k}, "v": value} for k, value in enumerate(values)])
    db.t.insert_one({"_id": bson.Timestamp(0, n + 1), "ts": bson.Timestamp(0, 0)})
    db.t.update_many({"v": {"$type": "double"}}, {"$currentDate": {"at": {"$type": "timestamp"}}})


def _updates(stage: Stage, db: Any) -> None:
    n = stage.number
    db.t.insert_many([{"n": n, "k": k, "a": [{"x": j, "y": 0} for j in range(30)]} for k in range(10)])
    filters = [{"e.x": {"$gt": 20}}]
    db.t.update_many(
        {"n": n, "a": {"$exists": True}}, {"$set": {"a.$[e].y": n + 1, "b": 1}}, array_filters=filters
    )
    db.t.update_many({"n": n, "k": 2}, {"$set": {"a.50.z": 1}})
    db.t.update_many({"k": n}, [{"$set": {"sum": {"$sum": "$a.x"}, "now": "$$NOW"}}, {"$unset": "a"}])
    db.t.update_many({"k": 5}, {"$push": {"a": {"$each": [{"x": -n}], "$slice": -9, "$sort": {"x": 1}}}})
    db.t.update_one({"never": n}, {"$setOnInsert": {"made": n}, "$max": {"m": 5}}, upsert=True)
    db.t.replace_one({"k": 7, "n": n}, {"replaced": n})
    db.t.update_many({"k": 8}, {"$rename": {"a": "b"}, "$bit": {"n": {"xor": 3}}})


def _databases(stage: Stage, db: Any) -> None:
    n, client = stage.number, stage.session
    for k in range(3):
        client[f"w_databases{k}"].t.insert_many([{"n": n, "j": j} for j in range(20)])
    client.drop_database(f"w_databases{n % 3}")
    client[f"w_databases{n % 3}"].create_collection("again")
    client[f"w_databases{n % 3}"].again.insert_one({"n": n})


def _accounts(stage: Stage, db: Any) -> None:
    n = stage.number
    writes = [{"resource": {"db": "w_accounts", "collection": ""}, "actions": ["find", "insert"]}]
    db.command("createRole", f"role{n}", privileges=writes, roles=["read"])
    db.command("createUser", f"o'dd ü{n}", pwd="pa'ss", roles=[f"role{n}"], customData={"n": n})
    if n == 2:
        db.command("updateUser", "o'dd ü1", pwd="other", roles=["readWrite"])
    if n == 3:
        db.command("dropUser", "o'dd ü0")
        db.command("dropRole", "role0")


def _notes(stage: Stage, db: Any) -> None:
    n, admin = stage.number, stage.session.admin
    for k in range(5):
        admin.command("appendOplogNote", 1, data={"n": n, "k": k, "text": "x" * 1000})
    db.t.insert_one({"_id": n})
    admin.command("setDefaultRWConcern", 1, defaultWriteConcern={"w": 1, "wtimeout": 60_000 + n})
    db.command("profile", 2 if n == 1 else 0)
    db.t.find_one()


def _sharded_like(stage: Stage, db: Any) -> None:
    n = stage.number
    if n == 0:
        db.t.create_index([("tenant", 1), ("key", "hashed")])
        db.t.create_index([("tenant", 1), ("_id", 1)], unique=True)
    db.t.insert_many([{"tenant": k % 7, "key": f"{n}{k}", "v": k} for k in range(300)], ordered=False)
    db.t.delete_many({"tenant": n})
    db.t.update_many({"tenant": n + 1}, {"$set": {"tenant": 100 + n}})


MONGO_WORLDS: Final[dict[str, World]] = {
    "time series": _world(_time_series, "series"),
    "capped": _world(_capped, "capped"),
    "clustered": _world(_clustered, "clustered"),
    "lives of documents": _world(_lives, "lives"),
    "views and outputs": _world(_views, "views"),
    "collations": _world(_collations, "collations"),
    "large documents": _world(_large, "large"),
    "images of changes": _world(_images, "images"),
    "transactions": _world(_transactions, "transactions"),
    "renames across databases": _world(_renames, "renames"),
    "retryable writes": _world(_retryable, "retryable"),
    "kinds of indexes": _world(_indexes, "indexes"),
    "validators": _world(_validators, "validators"),
    "odd names": _world(_names, "names"),
    "files": _world(_files, "files"),
    "kinds of values": _world(_types, "types"),
    "kinds of updates": _world(_updates, "updates"),
    "databases that go": _world(_databases, "databases"),
    "accounts": _world(_accounts, "accounts"),
    "notes and profiles": _world(_notes, "notes"),
    "keys as of shards": _world(_sharded_like, "sharded"),
}
