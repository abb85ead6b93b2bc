"""Certificates as PostgreSQL's users make them: what libpq accepts, data streams accept too."""

from __future__ import annotations

import socket
import ssl
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from faults.oracle import wait_for
from loading import load
from servers.installations import missing_reason
from servers.postgres import LOADER, PostgresServer
from targets import PostgresTarget, with_table, write

VERSION = 15  # the packaged 16 and 18 are built without OpenSSL

EC = ("ec", "-pkeyopt", "ec_paramgen_curve:P-256")


class Authority:
    """A directory of certificates. Its own, `root.crt`, is the one that signs."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.openssl(
            "req", "-x509", "-newkey", *EC, "-nodes", "-days", "2", "-subj", "/CN=Test authority",
            "-keyout", "root.key", "-out", "root.crt",
        )  # fmt: skip

    def openssl(self, *words: str) -> None:
        subprocess.run(["openssl", *words], cwd=self.place, check=True, capture_output=True)

    def sign(
        self, name: str, *, common_name: str = "localhost", extensions: str = "", key: tuple[str, ...] = EC
    ) -> None:
        """A certificate; without extensions one of X.509's first version, as the manual's recipe has it."""
        self.openssl(
            "req", "-new", "-newkey", *key, "-nodes", "-subj", f"/CN={common_name}",
            "-keyout", f"{name}.key", "-out", f"{name}.csr",
        )  # fmt: skip
        words = ["x509", "-req", "-in", f"{name}.csr", "-CA", "root.crt", "-CAkey", "root.key", "-CAcreateserial"]
        if extensions:
            write(self.place / f"{name}.ext", extensions)
            words += ["-extfile", f"{name}.ext"]
        self.openssl(*words, "-days", "2", "-out", f"{name}.crt")
        (self.place / f"{name}.key").chmod(0o600)

    def sign_itself(self, name: str) -> None:
        """PostgreSQL's manual, "Creating Certificates", first recipe."""
        self.openssl(
            "req", "-new", "-x509", "-days", "2", "-nodes", "-text", "-newkey", "rsa:2048", "-subj", "/CN=localhost",
            "-out", f"{name}.crt", "-keyout", f"{name}.key",
        )  # fmt: skip


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    authority = Authority(tmp_path_factory.mktemp("certificates"))
    authority.sign("plain")
    authority.sign("rsa", key=("rsa:2048",))
    authority.sign("mail", extensions="subjectAltName=email:a@example.test\n")
    authority.sign("critical", extensions="subjectAltName=DNS:localhost\n1.2.3.4=critical,ASN1:UTF8String:x\n")
    authority.sign("p521", key=("ec", "-pkeyopt", "ec_paramgen_curve:P-521"))
    authority.sign_itself("own")
    authority.sign("client", common_name=LOADER)
    authority.openssl("pkey", "-in", "client.key", "-outform", "DER", "-out", "client.der")
    authority.openssl("pkey", "-in", "client.key", "-aes256", "-passout", "pass:word", "-out", "client.locked")
    for name in ("client.der", "client.locked"):
        (authority.place / name).chmod(0o600)
    return authority


@pytest.fixture(scope="module")
def server(authority: Authority) -> Iterator[PostgresServer]:
    reason = missing_reason(VERSION)
    if reason:
        pytest.skip(reason)
    server = PostgresServer(
        VERSION,
        {"ssl_ca_file": f"'{authority.place / 'root.crt'}'"},
        # `localhost` is where a client's certificate is enough.
        first_lines_of_hba=f"hostssl certain {LOADER} 127.0.0.1/32 cert\nhostnossl all {LOADER} 127.0.0.1/32 reject",
    )
    for directory in (authority.place, *authority.place.parents[:2]):
        directory.chmod(directory.stat().st_mode | 0o011)
    (authority.place / "root.crt").chmod(0o644)
    server.install_certificate(authority.place / "plain.crt", authority.place / "plain.key")
    try:
        server.start()
        server.create_database("certain")
        yield server
    finally:
        server.destroy()


@pytest.fixture
def target(server: PostgresServer) -> Iterator[PostgresTarget]:
    with with_table(server) as target:
        yield target


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(tmp_path / "in.csv", "1,x\n2,y\n")


def show(server: PostgresServer, authority: Authority, name: str) -> None:
    """Has the server show another certificate from now on."""
    server.install_certificate(authority.place / f"{name}.crt", authority.place / f"{name}.key")
    server.execute("SELECT pg_reload_conf()")
    text = (authority.place / f"{name}.crt").read_text()
    wanted = ssl.PEM_cert_to_DER_cert(text[text.index("-----BEGIN") :])
    assert wait_for(lambda: shown(server) == wanted)


def shown(server: PostgresServer) -> bytes | None:
    """The certificate that a new connection gets (protocol: SSLRequest, which the server answers by `S`)."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as plain:
        plain.sendall(struct.pack("!ii", 8, 80877103))
        assert plain.recv(1) == b"S"
        with context.wrap_socket(plain) as session:
            return session.getpeercert(binary_form=True)


@pytest.mark.parametrize(
    ("name", "root", "modes"),
    [
        ("plain", "root", ("prefer", "require", "verify-ca", "verify-full")),
        ("rsa", "root", ("prefer", "require", "verify-ca", "verify-full")),
        ("own", "own", ("prefer", "require", "verify-ca", "verify-full")),
        ("mail", "root", ("require", "verify-full")),
        ("critical", None, ("prefer", "require")),
    ],
)
def test_certificates_of_servers(
    target: PostgresTarget, authority: Authority, path: Path, name: str, root: str | None, modes: tuple[str, ...]
) -> None:
    show(target.server, authority, name)
    for number, mode in enumerate(modes, start=1):
        parameters = {"sslmode": mode, "hostaddr": "127.0.0.1"}
        if mode.startswith("verify"):
            parameters["sslrootcert"] = str(authority.place / f"{root}.crt")
        load(target.server.url(LOADER, target.database, "localhost", **parameters), path, restart=True)
        assert target.count("t") == 2 * number
    # The oldest version that libpq speaks, where the server is asked to sign something else.
    target.server.execute("ALTER SYSTEM SET ssl_max_protocol_version = 'TLSv1.2'")
    try:
        show(target.server, authority, name)
        load(target.server.url(LOADER, target.database, "127.0.0.1", sslmode="require"), path, restart=True)
    finally:
        target.server.execute("ALTER SYSTEM RESET ssl_max_protocol_version")
        show(target.server, authority, "plain")
    assert target.count("t") == 2 * len(modes) + 2


def test_a_key_that_data_streams_do_not_know(target: PostgresTarget, authority: Authority, path: Path) -> None:
    """What can never succeed is not tried again, and told with what to do."""
    show(target.server, authority, "p521")
    try:
        url = target.server.url(LOADER, target.database, "127.0.0.1", sslmode="require")
        begun = time.monotonic()
        run = load(url, path, retry_for=60, check=1)
    finally:
        show(target.server, authority, "plain")
    assert time.monotonic() - begun < 30
    assert "a key of the kind EC P-521" in run.stderr
    assert "give the server a key of the kind RSA" in run.stderr
    assert target.count("t") == 0


@pytest.mark.parametrize(
    ("key", "words"), [("client.key", None), ("client.der", None), ("client.locked", "openssl pkey -in")]
)
def test_certificates_of_clients(
    server: PostgresServer, authority: Authority, path: Path, key: str, words: str | None
) -> None:
    """Of X.509's first version too; the server asks for nothing else."""
    table = key.replace(".", "_")
    server.execute(f"CREATE TABLE {table} (a integer, b text); ALTER TABLE {table} OWNER TO {LOADER}", "certain")
    url = server.url(
        LOADER, "certain", "127.0.0.1", sslmode="require", sslcert=str(authority.place / "client.crt"),
        sslkey=str(authority.place / key), sslpassword="word",
    )  # fmt: skip
    run = load(url, path, table=table, check=0 if words is None else 1)
    assert server.rows(f"SELECT count(*) FROM {table}", "certain") == [(2 if words is None else 0,)]
    if words is not None:
        assert words in run.stderr
