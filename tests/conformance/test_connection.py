"""Every way in which libpq's users say where the server is, and that no password is ever shown."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from urllib.parse import quote

import psutil
import psycopg
import pytest

import tipple
from big import TABLE, BigFile
from command import Run, environment, run_tipple, start_tipple
from faults.oracle import wait_for
from loading import load, load_words
from servers.installations import missing_reason
from servers.pooler import Pooler
from servers.postgres import LOADER, LOADER_PASSWORD, PostgresServer, postgres_server
from targets import DuckdbTarget, PostgresTarget, with_table, write
from tipple.engines.postgresql import connect, session
from tipple.errors import ConnectionFailed, TippleError, UsageError
from tipple.plan.url import parse_target

SECRETS = (LOADER_PASSWORD, quote(LOADER_PASSWORD, safe=""), LOADER_PASSWORD.split("-")[1])


@pytest.fixture
def target(postgres_target: PostgresTarget) -> PostgresTarget:
    postgres_target.execute("CREATE TABLE t (a integer, b text)")
    return postgres_target


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(tmp_path / "in.csv", "1,x\n2,y\n")


def where(target: PostgresTarget, *, host: str | None = None) -> dict[str, str]:
    """The PG* variables of a target."""
    return {
        "PGHOST": host or str(target.server.socket_directory),
        "PGPORT": str(target.server.port),
        "PGUSER": LOADER,
        "PGDATABASE": target.database,
    }


def assert_no_secret(run: Run, target: PostgresTarget) -> None:
    """Not in what was printed or written, and not in the ledger or the server's log."""
    ledger = ""
    for table in sorted(target.tables()):
        if table.startswith("tipple."):
            ledger += repr(target.rows(f"SELECT row_to_json(x)::text FROM {table} x"))
    for secret in SECRETS:
        assert secret not in run.output
        assert secret not in repr(run.summary)
        assert secret not in ledger
        assert secret not in target.server.log_text()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("etl:S3cr3t%Word@127.0.0.1:1/shop", "postgresql://etl:***@127.0.0.1:1/shop: its URL has a space, or a %"),
        ("etl:S3cr3t Word@127.0.0.1:1/shop", "its URL has a space"),
        ("etl:S3cr3t%00Word@127.0.0.1:1/shop", "its URL has a space, or a %"),
        ("127.0.0.1:1/?password=S3cr3t%Word", "its URL has a space, or a %"),
        ("etl:S3cr3t@Word@127.0.0.1:1/shop", "where its password ends"),
        ("etl:S3cr3t/Word@127.0.0.1:1/shop", "where its password ends"),
        ("127.0.0.1:1/?password=a&b=S3cr3tWord", "where its password ends"),
        ("127.0.0.1:1/?password=a&S3cr3t=Word", "where its password ends"),
        ("127.0.0.1:1/?passwrod=S3cr3t", 'invalid URI query parameter: "passwrod"'),
        ("127.0.0.1:1/?connect_timeout=x%20S3cr3t&password=x%20S3cr3t", "connect_timeout: '***'"),
        ("etl:S3cr3t@127.0.0.1:1/shop", "Connection refused"),
    ],
)
def test_libpq_repeats_no_part_of_a_password(url: str, said: str) -> None:
    """Its messages quote what they do not like, whether it is a secret or not."""
    with pytest.raises(tipple.ConnectionFailed) as caught:
        tipple.list_jobs(f"postgresql://{url}")
    assert said in str(caught.value)
    shown = repr(caught.value) + str(caught.value) + str(caught.value.hint)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert "S3cr3t" not in shown.replace("?connect_timeout=x%20S3cr3t", "")
    assert "Word" not in shown


def test_a_connect_timeout_that_is_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "abc")
    with pytest.raises(tipple.ConnectionFailed, match="abc"):
        tipple.list_jobs("postgresql://127.0.0.1:1/x")


def test_a_password_in_the_url_has_no_module_read_from_the_working_directory(tmp_path: Path) -> None:
    """Such a command starts itself once more: as it was started, and not with the working directory on the path."""
    for name in ("click", "rich", "msgspec", "tipple"):
        write(tmp_path / f"{name}.py", "print('read from the working directory')\n")
    command = [sys.executable, "-W", "error::UserWarning", str(Path(sys.executable).parent / "tipple"), "jobs"]
    run = subprocess.run(
        [*command, "postgresql://etl:S3cr3t@127.0.0.1:1/shop"],
        cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert run.returncode == 2
    assert run.stdout == ""
    assert "postgresql://etl:***@127.0.0.1:1/shop" in run.stderr


@pytest.mark.parametrize("host", ["socket", "127.0.0.1"])
def test_password_in_the_url(target: PostgresTarget, path: Path, host: str) -> None:
    run = load(target.server.url(LOADER, target.database, host), path, progress="plain")
    assert target.count("t") == 2
    assert_no_secret(run, target)


def test_password_in_a_parameter(target: PostgresTarget, path: Path) -> None:
    url = (
        f"postgresql:///{target.database}?host=127.0.0.1&port={target.server.port}&user={LOADER}"
        f"&password={quote(LOADER_PASSWORD, safe='')}"
    )
    run = load(url, path)
    assert target.count("t") == 2
    assert_no_secret(run, target)


def test_all_by_variables(target: PostgresTarget, path: Path) -> None:
    run = load("postgresql://", path, env={**where(target), "PGPASSWORD": LOADER_PASSWORD})
    assert target.count("t") == 2
    assert_no_secret(run, target)


def test_pgpass(target: PostgresTarget, path: Path, tmp_path: Path) -> None:
    escaped = LOADER_PASSWORD.replace("\\", "\\\\").replace(":", "\\:")
    file = write(tmp_path / "pgpass", f"# a comment\nother:*:*:*:wrong\n*:{target.server.port}:*:{LOADER}:{escaped}\n")
    file.chmod(0o600)
    env = {**where(target, host="127.0.0.1"), "PGPASSFILE": str(file)}
    run = load("postgresql://", path, env=env)
    assert target.count("t") == 2
    assert_no_secret(run, target)


def test_pgpass_in_the_home_directory(target: PostgresTarget, path: Path, tmp_path: Path) -> None:
    file = write(tmp_path / "home" / ".pgpass", f"127.0.0.1:{target.server.port}:*:*:{LOADER_PASSWORD}\n")
    file.chmod(0o600)
    env = {**where(target, host="127.0.0.1"), "PGPASSFILE": None, "HOME": str(tmp_path / "home")}
    load("postgresql://", path, env=env)
    assert target.count("t") == 2


@pytest.mark.parametrize("how", ["url", "variable"])
def test_service_file(target: PostgresTarget, path: Path, tmp_path: Path, how: str) -> None:
    file = write(
        tmp_path / "services",
        f"[night]\nhost=127.0.0.1\nport={target.server.port}\nuser={LOADER}\n"
        f"password={LOADER_PASSWORD}\ndbname={target.database}\n",
    )
    env = {"PGSERVICEFILE": str(file)}
    if how == "variable":
        env["PGSERVICE"] = "night"
    run = load("postgresql://" if how == "variable" else "postgresql://?service=night", path, env=env)
    assert target.count("t") == 2
    assert_no_secret(run, target)


def test_several_hosts(target: PostgresTarget, path: Path) -> None:
    """libpq's list of hosts: the first that answers."""
    password = quote(LOADER_PASSWORD, safe="")
    url = f"postgresql://{LOADER}:{password}@127.0.0.1:1,127.0.0.1:{target.server.port}/{target.database}"
    load(url, path)
    assert target.count("t") == 2


def test_options_reach_every_session(target: PostgresTarget, path: Path) -> None:
    target.execute("DROP TABLE t; CREATE TABLE t (a integer, b text, s text DEFAULT current_setting('my.setting'))")
    load(target.server.url(LOADER, target.database, options="-c my.setting=here"), path, columns="a,b", jobs=2)
    assert target.rows("SELECT DISTINCT s FROM t") == [("here",)]


@pytest.mark.parametrize("options", [(), ("--schema", "tpch", "--table", "region", "--dry-run")])
def test_sessions_that_are_read_only(target: PostgresTarget, path: Path, options: tuple[str, ...]) -> None:
    """It is not the schema's fault, nor the table's."""
    target.execute(f"ALTER DATABASE {target.database} SET default_transaction_read_only = on")
    run = run_tipple("load", path, "--into", target.url, "--table", "t", *options, check=2)
    assert "default_transaction_read_only is on" in run.stderr
    assert "default_transaction_read_only%3Doff" in run_tipple("doctor", target.url, check=False).stdout
    for action in ("clean", "cancel"):
        refused = run_tipple("jobs", target.url, action, *(["1234"] if action == "cancel" else []), check=2)
        assert "default_transaction_read_only is on" in refused.stderr
    load(f"{target.url}&options=-c%20default_transaction_read_only%3Doff", path)
    assert target.count("t") == 2


def test_a_standby(target: PostgresTarget, tmp_path: Path) -> None:
    with postgres_server(target.server.version) as server:
        server.stop()
        (server.data / "standby.signal").touch()
        server.start()
        run = load(server.superuser_url, write(tmp_path / "in.csv", "1\n"), schema="auto", check=2)
        assert "is a standby" in run.stderr
        assert "target_session_attrs=read-write" in run.stderr
        run_tipple("jobs", server.superuser_url)


@pytest.mark.parametrize("kind", ["password", "user", "database", "port"])
def test_refused_login(target: PostgresTarget, path: Path, kind: str) -> None:
    server = target.server
    url, words = {
        "password": (
            server.url(LOADER, target.database, "127.0.0.1", password="wr0ng-Pass"),
            "password authentication failed",
        ),
        "user": (server.url("nobody_here", target.database, password="wr0ng-Pass"), "nobody_here"),
        "database": (server.url(LOADER, "no_such_database"), "no_such_database"),
        "port": (server.url(LOADER, target.database, "127.0.0.1", port=1), "onnection"),
    }[kind]  # fmt: skip
    run = load(url, path, check=2, timeout=60)
    assert words in run.stderr
    assert "wr0ng-Pass" not in run.output
    assert_no_secret(run, target)
    assert target.count("t") == 0


@pytest.mark.parametrize(
    ("statement", "remedy"),
    [
        ("ALTER ROLE {role} NOLOGIN", "ALTER ROLE this role LOGIN"),
        ("REVOKE CONNECT ON DATABASE {database} FROM PUBLIC", "GRANT CONNECT ON DATABASE … TO this role"),
        ("ALTER DATABASE {database} ALLOW_CONNECTIONS false", "ALTER DATABASE … ALLOW_CONNECTIONS true"),
    ],
)
def test_a_login_that_is_not_allowed(target: PostgresTarget, path: Path, statement: str, remedy: str) -> None:
    server, database = target.server, target.database
    role = f"guest_{database}"
    server.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'x'")
    try:
        server.execute(statement.format(role=role, database=database))
        run = load(server.url(role, database, password="x"), path, check=2)
        assert remedy in run.stderr
        assert "psql reaches" not in run.stderr
    finally:
        server.execute(f"DROP ROLE {role}; ALTER DATABASE {database} ALLOW_CONNECTIONS true")


def test_tls_where_the_server_has_none(target: PostgresTarget, path: Path) -> None:
    url = target.server.url(LOADER, target.database, "127.0.0.1")
    run = load(f"{url}{'&' if '?' in url else '?'}sslmode=require", path, check=2)
    assert "turn ssl on at the server, or ask for less by sslmode" in run.stderr


def test_no_password_where_one_is_needed(target: PostgresTarget, path: Path) -> None:
    """No prompt, no hanging: an error that says what is missing."""
    run = load("postgresql://", path, env=where(target, host="127.0.0.1"), check=2, timeout=60)
    assert "password" in run.stderr


@pytest.mark.parametrize("kind", ["session", "local"])
def test_a_library_that_is_missing_is_no_missing_socket(target: PostgresTarget, path: Path, kind: str) -> None:
    target.server.execute(f"ALTER DATABASE {target.database} SET {kind}_preload_libraries = 'nowhere'")
    run = load(target, path, check=2)
    assert "No such file or directory" in run.stderr
    assert f"{kind}_preload_libraries" in run.stderr
    assert "Unix socket" not in run.stderr


def test_a_socket_that_is_missing(path: Path) -> None:
    run = load("postgresql:///d?host=/nonexistent", path, check=2)
    assert "hint: check the directory of the Unix socket, and whether the server is running" in run.stderr


def test_failures_in_the_middle_show_no_password(target: PostgresTarget, tmp_path: Path) -> None:
    for progress in ("plain", "json", "bar"):
        run = load(target, write(tmp_path / "bad.csv", "1,x\ny,x\n"), check=1, progress=progress)
        assert_no_secret(run, target)
    run = load(target, tmp_path / "bad.csv", table="missing", check=2)
    assert_no_secret(run, target)


def test_sessions_while_loading(target: PostgresTarget, big_file: BigFile) -> None:
    """Each session has an application name, and the process list shows no password."""
    target.execute(f"DROP TABLE t; {TABLE}")
    command = start_tipple(*load_words(target.url, (big_file.path,), "t", {"jobs": 2}))
    names: set[str] = set()
    shown: list[str] = []
    most = 0
    try:
        while command.running:
            found = target.server.rows(
                "SELECT application_name FROM pg_stat_activity WHERE backend_type = 'client backend' "
                f"AND datname = '{target.database}' AND pid <> {target.connection.info.backend_pid} "
                "AND query <> ''"  # one that is only just starting has no name yet
            )
            names |= {name for (name,) in found}
            most = max(most, len(found))
            if found:
                try:
                    process = psutil.Process(command.pid)
                    shown.append(" ".join(process.cmdline()) + process.name())
                except psutil.NoSuchProcess:
                    break
            time.sleep(0.02)
    finally:
        run = command.wait()
    assert run.exit_code == 0, str(run)
    assert most >= 2
    assert all(name.startswith("tipple") for name in names), names
    for secret in SECRETS:
        assert not any(secret in line for line in shown[2:]), "the password is in the process list"
    assert_no_secret(run, target)


def test_application_name_of_the_user_wins(target: PostgresTarget, path: Path) -> None:
    target.execute(
        "DROP TABLE t; CREATE TABLE t (a integer, b text, n text DEFAULT current_setting('application_name'))"
    )
    url = target.server.url(LOADER, target.database, application_name="night batch")
    load(url, path, columns="a,b")
    ((name,),) = target.rows("SELECT DISTINCT n FROM t")
    assert "night batch" in name


@pytest.mark.parametrize("why", ["an encoding that it does not turn into UTF-8", "too old"])
def test_a_refused_server_keeps_no_session(target: PostgresTarget, monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    """Though somebody keeps the error, and what led to it."""
    database, said = target.database, "MULE_INTERNAL"
    error: type[TippleError] = ConnectionFailed
    if why == "too old":
        monkeypatch.setattr(session, "OLDEST_VERSION", 99)
        error, said = UsageError, f"is PostgreSQL {target.server.version}"
    else:
        options = "ENCODING 'MULE_INTERNAL' LOCALE 'C' TEMPLATE template0"
        database = target.server.create_database(f"{target.database}_mule", options=options)
    url = target.server.url(LOADER, database)
    with pytest.raises(error, match=said) as kept:
        connect(parse_target(url))
    mine = f"SELECT FROM pg_stat_activity WHERE datname = '{database}' AND application_name = 'tipple'"
    assert wait_for(lambda: target.server.rows(mine) == [])
    assert kept.value.__traceback__ is not None
    target.server.drop_database(f"{target.database}_mule")


# ---- pools ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("others", [0, 1])
def test_a_pool_that_lends_sessions_for_a_transaction(target: PostgresTarget, path: Path, others: int) -> None:
    """The lock of a load, and its settings, would stay behind in a session that is somebody else's next.

    Whether other clients keep some of its sessions busy or none.
    """
    target.execute(f"ALTER DATABASE {target.database} SET statement_timeout TO '1h'")
    with closing(Pooler(target.server.url(LOADER, target.database), "transaction")) as pooler, ExitStack() as stack:
        url = target.server.url(LOADER, target.database, "127.0.0.1", port=pooler.port)
        for _ in range(others):
            stack.enter_context(psycopg.connect(url)).execute("SELECT 1")
        run = load(url, path, check=2)
        assert "is a connection pool that gives every transaction another session" in run.stderr
        assert "pool_mode = session" in run.stderr
        run_tipple("doctor", url, check=2)
        assert_no_secret(run, target)
        with psycopg.connect(url) as later:
            assert later.execute("SHOW statement_timeout").fetchall() == [("1h",)]
    assert target.count("t") == 0
    assert target.tables() == {"public.t"}
    assert target.rows("SELECT FROM pg_locks WHERE locktype = 'advisory'") == []


def test_a_pool_that_lends_sessions_for_a_statement(target: PostgresTarget, path: Path) -> None:
    """It knows no transactions: whoever begins one is told so, and has lost the connection."""
    with closing(Pooler(target.server.url(LOADER, target.database), "statement")) as pooler:
        run = load(target.server.url(LOADER, target.database, "127.0.0.1", port=pooler.port), path, check=2)
    assert "is a connection pool that gives every transaction another session" in run.stderr
    assert target.tables() == {"public.t"}


def test_a_pool_that_keeps_sessions(target: PostgresTarget, path: Path) -> None:
    with closing(Pooler(target.server.url(LOADER, target.database), "session")) as pooler:
        url = target.server.url(LOADER, target.database, "127.0.0.1", port=pooler.port)
        load(url, path, jobs=2, verify="checksum")
        load(url, write(path.with_name("more.csv"), "3,z\n"), write_path="text")
    assert target.sorted_rows("t") == [(1, "x"), (2, "y"), (3, "z")]


# ---- TLS -----------------------------------------------------------------------------------------------

TLS_VERSION = 15  # the packaged 16 and 18 are built without OpenSSL


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority, a server's certificate for `localhost`, and another authority that signed nothing."""
    place = tmp_path_factory.mktemp("tls")

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=place, check=True, capture_output=True)

    for name in ("ca", "other"):
        openssl(
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN=Test {name}",
            "-keyout", f"{name}.key", "-out", f"{name}.crt", "-addext", "basicConstraints=critical,CA:TRUE",
        )  # fmt: skip
    write(place / "server.ext", "subjectAltName=DNS:localhost\nbasicConstraints=CA:FALSE\n")
    openssl(
        "req",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-subj",
        "/CN=localhost",
        "-keyout",
        "server.key",
        "-out",
        "server.csr",
    )
    openssl(
        "x509", "-req", "-in", "server.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial",
        "-days", "2", "-extfile", "server.ext", "-out", "server.crt",
    )  # fmt: skip
    return place


@pytest.fixture(scope="module")
def tls_server(certificates: Path) -> Iterator[PostgresServer]:
    reason = missing_reason(TLS_VERSION)
    if reason:
        pytest.skip(reason)
    server = PostgresServer(TLS_VERSION, first_lines_of_hba="hostnossl all loader 127.0.0.1/32 reject")
    server.install_certificate(certificates / "server.crt", certificates / "server.key")
    try:
        server.start()
        yield server
    finally:
        server.destroy()


@pytest.fixture
def tls_target(tls_server: PostgresServer) -> Iterator[PostgresTarget]:
    with with_table(tls_server) as target:
        yield target


@pytest.mark.parametrize(
    ("host", "mode", "authority", "words"),
    [
        ("127.0.0.1", "prefer", None, None),
        ("127.0.0.1", "require", None, None),
        ("127.0.0.1", "disable", None, "pg_hba.conf"),
        ("127.0.0.1", "verify-ca", "ca", None),
        ("127.0.0.1", "verify-ca", "other", "certificate"),
        ("127.0.0.1", "verify-full", "ca", "127.0.0.1"),
        ("localhost", "verify-full", "ca", None),
        ("localhost", "verify-full", "other", "certificate"),
        ("localhost", "verify-full", "missing", "missing"),
    ],
)
def test_tls(
    tls_target: PostgresTarget,
    certificates: Path,
    path: Path,
    host: str,
    mode: str,
    authority: str | None,
    words: str | None,
) -> None:
    parameters = {"sslmode": mode}
    if authority is not None:
        parameters["sslrootcert"] = str(certificates / f"{authority}.crt")
    if host == "localhost":
        parameters["hostaddr"] = "127.0.0.1"
    url = tls_target.server.url(LOADER, tls_target.database, host, **parameters)
    run = load(url, path, check=0 if words is None else 2)
    if words is None:
        assert tls_target.count("t") == 2
    else:
        assert words in run.stderr
        assert tls_target.count("t") == 0


def test_an_authority_that_is_not_there(tls_target: PostgresTarget, path: Path) -> None:
    """It is the certificate that does not exist, and neither the database nor the role."""
    url = tls_target.server.url(
        LOADER, tls_target.database, "127.0.0.1", sslmode="verify-full", sslrootcert="/nowhere/ca.crt"
    )
    assert "the certificate of the server's authority" in load(url, path, check=2).stderr


def test_tls_of_every_session(tls_target: PostgresTarget, certificates: Path, path: Path) -> None:
    """The streams' sessions are encrypted as the control connection is."""
    url = tls_target.server.url(
        LOADER, tls_target.database, "localhost", hostaddr="127.0.0.1", sslmode="verify-full",
        sslrootcert=str(certificates / "ca.crt"),
    )  # fmt: skip
    tls_target.server.execute("ALTER SYSTEM SET log_connections = on")
    tls_target.server.execute("SELECT pg_reload_conf()")
    time.sleep(0.2)
    load(url, path, jobs=2)
    lines = [
        line
        for line in tls_target.server.log_text().splitlines()
        if "connection authorized" in line and f"database={tls_target.database}" in line and "tipple" in line
    ]
    assert lines
    assert all("SSL enabled" in line for line in lines), lines


def test_duckdb_needs_no_server(tmp_path: Path, path: Path) -> None:
    """PG* variables mean nothing to another engine."""
    target = DuckdbTarget(tmp_path / "x.duckdb")
    target.execute("CREATE TABLE t (a integer, b varchar)")
    load(target, path, env={"PGHOST": "no-such-host.invalid", "PGPORT": "1"})
    assert target.count("t") == 2


def test_connecting_is_bounded(path: Path, silent_port: Callable[[], int]) -> None:
    """A host that accepts and then says nothing: an error within the time that was asked for."""
    url = f"postgresql://{LOADER}@127.0.0.1:{silent_port()}/x?connect_timeout=3"
    started = time.monotonic()
    load(url, path, check=2, timeout=60)
    assert time.monotonic() - started < 20


@pytest.fixture
def silent_port() -> Iterator[Callable[[], int]]:
    listeners: list[socket.socket] = []

    def make() -> int:
        listeners.append(socket.create_server(("127.0.0.1", 0)))
        port: int = listeners[-1].getsockname()[1]
        return port

    yield make
    for listener in listeners:
        listener.close()


def test_superuser_is_not_needed(target: PostgresTarget, path: Path) -> None:
    with psycopg.connect(target.url) as connection:
        row = connection.execute("SELECT usesuper FROM pg_user WHERE usename = current_user").fetchone()
    assert row == (False,)
    load(target, path)
    assert target.count("t") == 2
