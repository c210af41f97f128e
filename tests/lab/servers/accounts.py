"""Accounts and contents of the prepared data directories."""

from collections.abc import Iterator

from zbackup.engines.mysql.server.privileges import GRANTS

APP_USER, APP_PASSWORD = "app", "app-secret"
REPLICATION_USER, REPLICATION_PASSWORD = "repl", "repl-secret"
ZBACKUP_USER, ZBACKUP_PASSWORD = "zbackup", "zb-secret"

CUSTOMERS = 1000
ORDERS = 4000

# No more than the documentation tells people to give.
ZBACKUP_GRANTS = GRANTS


def setup_sql(kind: str) -> str:
    """Statements that turn a freshly initialised server of `kind` into the lab's template."""
    return ";\n".join([*_accounts(kind), *_shop()]) + ";\n"


def _accounts(kind: str) -> Iterator[str]:
    for user, host, password in (
        (APP_USER, "%", APP_PASSWORD),
        (REPLICATION_USER, "%", REPLICATION_PASSWORD),
        (ZBACKUP_USER, "localhost", ZBACKUP_PASSWORD),
    ):
        yield f"CREATE USER '{user}'@'{host}' IDENTIFIED BY '{password}'"
    yield f"GRANT ALL ON shop.* TO '{APP_USER}'@'%'"
    yield f"GRANT ALL ON workload.* TO '{APP_USER}'@'%'"
    yield f"GRANT REPLICATION SLAVE ON *.* TO '{REPLICATION_USER}'@'%'"
    for grant in ZBACKUP_GRANTS[kind]:
        yield f"GRANT {grant} TO '{ZBACKUP_USER}'@'localhost'"


def _shop() -> Iterator[str]:
    yield "CREATE DATABASE shop CHARACTER SET utf8mb4"
    yield "CREATE DATABASE workload CHARACTER SET utf8mb4"
    yield (
        "CREATE TABLE shop.customers (id INT PRIMARY KEY, name VARCHAR(60) NOT NULL,"
        " email VARCHAR(80) NOT NULL, since DATE NOT NULL, UNIQUE KEY email (email)) ENGINE=InnoDB"
    )
    yield (
        "CREATE TABLE shop.orders (id INT PRIMARY KEY AUTO_INCREMENT, customer_id INT NOT NULL,"
        " amount DECIMAL(10,2) NOT NULL, state VARCHAR(10) NOT NULL, placed DATETIME NOT NULL,"
        " KEY placed (placed), CONSTRAINT of_customer FOREIGN KEY (customer_id) REFERENCES customers (id))"
        " ENGINE=InnoDB"
    )
    customers = (
        f"({n},'Customer {n}','customer{n}@example.com','2024-{1 + n % 12:02}-{1 + n % 28:02}')"
        for n in range(1, CUSTOMERS + 1)
    )
    yield "INSERT INTO shop.customers VALUES " + ",".join(customers)
    orders = (
        f"({n},{1 + n * 7919 % CUSTOMERS},{n * 31 % 900}.{n % 100:02},"
        f"'{('new', 'paid', 'shipped')[n % 3]}','2024-{1 + n % 12:02}-{1 + n % 28:02} 10:{n % 60:02}:00')"
        for n in range(1, ORDERS + 1)
    )
    yield "INSERT INTO shop.orders VALUES " + ",".join(orders)
