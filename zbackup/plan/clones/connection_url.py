"""Say how programs reach a dev clone: as a URL, or in their environment. Pure."""

from urllib.parse import quote

from zbackup.model.cloning import Login

HOST = "127.0.0.1"


def url(engine: str, port: int, login: Login | None) -> str:
    """Give what most drivers and frameworks take. Without a login the user puts in one of production's."""
    who = f"{quote(login.user, safe='')}:{quote(login.password, safe='')}@" if login else ""
    if engine == "mongodb":
        source = "authSource=admin&" if login else ""
        return f"mongodb://{who}{HOST}:{port}/?{source}directConnection=true"
    return f"mysql://{who}{HOST}:{port}/"


def environment(engine: str, port: int, login: Login | None) -> dict[str, str]:
    """The variables that clients look at: the servers' own, and DATABASE_URL."""
    values = {"DATABASE_URL": url(engine, port, login)}
    if engine == "mongodb":
        return {"MONGODB_URI": values["DATABASE_URL"]} | values
    values |= {"MYSQL_HOST": HOST, "MYSQL_TCP_PORT": str(port)}
    if login:
        values |= {"MYSQL_USER": login.user, "MYSQL_PWD": login.password}
    return values
