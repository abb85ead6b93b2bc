"""Sources that are missing, empty, of the wrong kind, or change while they are read."""

from __future__ import annotations

import gzip
import io
import os
import signal
import socket
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from big import TABLE, BigFile, write_big_file
from command import start_tipple
from faults.oracle import frozen
from loading import load, load_here, load_words
from targets import Target, write
from tipple.engines.base import Identity
from tipple.run.sources import identify


@pytest.fixture
def target(engine_target: Target) -> Target:
    engine_target.execute("CREATE TABLE t (a integer, b varchar)")
    engine_target.execute("INSERT INTO t VALUES (0, 'old')")
    return engine_target


def assert_untouched(target: Target) -> None:
    assert target.rows("SELECT * FROM t") == [(0, "old")]
    assert target.leftovers("t") == set()


def test_missing_file(target: Target, tmp_path: Path) -> None:
    good = write(tmp_path / "good.csv", "1,x\n")
    for sources in ([tmp_path / "missing.csv"], [good, tmp_path / "missing.csv"]):
        run = load(target, *sources, check=2)
        assert "missing.csv" in run.stderr
        assert_untouched(target)


@pytest.mark.parametrize("options", [{}, {"format": "csv"}, {"format": "csv", "header": "match"}])
def test_file_that_is_gone_before_it_is_sampled(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, str]
) -> None:
    path = write(tmp_path / "gone.csv", "1,x\n")

    def identify_and_remove(name: str, *rest: Any, **named: Any) -> Identity:
        try:
            return identify(name, *rest, **named)
        finally:
            path.unlink()

    monkeypatch.setattr("tipple.run.load.identify", identify_and_remove)
    run = load_here(target, path, check=2, **options)
    assert "gone.csv: cannot be read: No such file or directory" in run.stderr
    assert_untouched(target)


def test_empty_file(target: Target, tmp_path: Path) -> None:
    run = load(target, write(tmp_path / "empty.csv", ""))
    assert run.summary is not None
    assert (run.summary["rows"], run.summary["bytes"]) == (0, 0)
    assert_untouched(target)


def test_empty_files_among_others(target: Target, tmp_path: Path) -> None:
    files = [write(tmp_path / f"{i}.csv", "" if i % 2 else f"{i},x\n") for i in range(6)]
    load(target, *files, jobs=3)
    assert target.count("t") == 4


@pytest.mark.parametrize("kind", ["empty_directory", "directory_of_other_files", "pattern"])
def test_nothing_matches(target: Target, tmp_path: Path, kind: str) -> None:
    directory = tmp_path / "data"
    directory.mkdir()
    source = directory
    if kind == "directory_of_other_files":
        write(directory / "readme.md", "no data\n")
    if kind == "pattern":
        write(directory / "x.csv", "1,x\n")
        source = directory / "*.tbl"
    run = load(target, source, check=2)
    assert "data" in run.stderr
    assert_untouched(target)


@pytest.mark.parametrize("kind", ["zeros", "random", "gzip", "elf", "utf16_cut", "parquet"])
def test_binary_file(target: Target, tmp_path: Path, kind: str) -> None:
    data = {
        "zeros": bytes(100_000),
        "random": os.urandom(300_000),
        "gzip": b"\x1f\x8b\x08\x00" + os.urandom(50_000),
        "elf": Path("/bin/sh").read_bytes(),
        "utf16_cut": "1,x\r\n2,y\r\n".encode("utf-16")[:-1],
        "parquet": b"PAR1" + os.urandom(50_000) + b"PAR1",
    }[kind]
    run = load(target, write(tmp_path / "in.csv", data), check=False)
    assert run.exit_code in (1, 2), str(run)
    assert "in.csv" in run.stderr
    assert "Traceback" not in run.stderr
    assert len(run.stderr) < 5000
    assert_untouched(target)


def tar_archive() -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        member = tarfile.TarInfo("a.csv")
        member.size = 4
        tar.addfile(member, io.BytesIO(b"1,a\n"))
    return archive.getvalue()


@pytest.mark.parametrize(
    ("data", "packed", "message", "remedy"),
    [
        (tar_archive(), False, "is a tar archive", "tar --extract"),
        (tar_archive(), True, "unpacks to a tar archive", "tar --extract"),
        (gzip.compress(b"1,a\n"), True, "is packed twice", "unpack it once first"),
        (b"PAR1" + bytes(50), True, "unpacks to a Parquet file", "unpack it first"),
        ("1,a\n2,b\n".encode("utf-16-le"), False, "is a binary file", "--encoding UTF-16LE"),
        ("1,a\n2,b\n".encode("utf-16-be"), True, "unpacks to a binary file", "--encoding UTF-16BE"),
        ("\ufeff1,a\n".encode("utf-32-le"), False, "is UTF-32 text", "iconv"),
        ("\ufeff1,a\n".encode("utf-32-be"), False, "is UTF-32 text", "iconv"),
    ],
    # Names of one's own: of the data they would hold the time at which gzip packed it, and each
    # worker that collects these tests must find the same ones.
    ids=["tar", "packed_tar", "packed_twice", "packed_parquet", "utf16le", "packed_utf16be", "utf32le", "utf32be"],
)
def test_what_is_no_text_is_named(
    target: Target, tmp_path: Path, data: bytes, packed: bool, message: str, remedy: str
) -> None:
    path = write(tmp_path / "in.csv", gzip.compress(data) if packed else data)
    for options in ({}, {"format": "csv"}):
        run = load(target, path, **options, check=2)
        assert message in run.stderr
        assert remedy in run.stderr
    assert_untouched(target)


@pytest.mark.parametrize(
    ("mark", "named", "said"),
    [
        (b"\xfe\xff", "utf-16le", "UTF-16BE"),
        (b"\xff\xfe", "UTF16BE", "UTF-16LE"),
        (b"\xff\xfe", "WIN1252", "UTF-16LE"),
        (b"\xef\xbb\xbf", "LATIN1", "UTF-8"),
        (b"\xef\xbb\xbf", "UTF-16", "UTF-8"),
        (b"\xfe\xff", "UTF-16", None),
        (b"\xff\xfe", "utf_16le", None),
        (b"\xff\xfe", "UCS-2", None),
        (b"\xef\xbb\xbf", "utf8", None),
    ],
)
def test_a_byte_order_mark_that_is_not_the_encodings(
    target: Target, tmp_path: Path, mark: bytes, named: str, said: str | None
) -> None:
    """Each byte would be some character, and none the right one."""
    encoding = {b"\xfe\xff": "utf-16-be", b"\xff\xfe": "utf-16-le"}.get(mark, "utf-8")
    path = write(tmp_path / "in.csv", mark + "1,a\n".encode(encoding))
    run = load(target, path, encoding=named, check=2 if said else 0)
    if said:
        assert f"in.csv begins with the byte order mark of {said}, and the encoding {named} was named" in run.stderr
        assert f"--encoding {said}" in run.stderr
    else:
        assert (1, "a") in target.rows("SELECT * FROM t")


def test_packed_records_with_zeros_are_rejects(target: Target, tmp_path: Path) -> None:
    """As they are in files that are not packed: it is their number that counts."""
    path = write(tmp_path / "in.csv", gzip.compress(b"1,a\n2,\0\0\0\0\n3,c\n"))
    run = load(target, path, on_error="skip", max_rejects=1, rejects=tmp_path / "r", check=3)
    assert run.summary is not None
    assert (run.summary["rows"], run.summary["rejects"]) == (2, 1)


@pytest.mark.parametrize("kind", ["device", "dangling_link", "link_loop", "socket"])
def test_what_is_no_file(target: Target, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "in.csv"
    if kind == "device":
        path = Path("/dev/zero")
    elif kind == "dangling_link":
        path.symlink_to(tmp_path / "nowhere.csv")
    elif kind == "link_loop":
        path.symlink_to(path)
    else:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
    run = load(target, path, format="csv", check=False, timeout=60)
    assert run.exit_code in (1, 2), str(run)
    assert path.name in run.stderr
    assert_untouched(target)


@pytest.mark.parametrize("seconds", [9_223_372_800, -9_223_372_800, 253_370_764_800])
def test_times_of_change_beyond_64_bits(target: Target, tmp_path: Path, seconds: int) -> None:
    """As a wrong clock writes them; the core looks at the time again when it opens the file."""
    path = write(tmp_path / "in.csv", "1,x\n")
    os.utime(path, (seconds, seconds))
    load(target, path)
    assert target.count("t") == 2


def test_a_link_to_a_file_is_followed(target: Target, tmp_path: Path) -> None:
    write(tmp_path / "data.csv", "1,x\n")
    (tmp_path / "link.csv").symlink_to("data.csv")
    load(target, tmp_path / "link.csv")
    assert target.count("t") == 2


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_without_permission(target: Target, tmp_path: Path) -> None:
    path = write(tmp_path / "in.csv", "1,x\n")
    path.chmod(0)
    run = load(target, path, check=2)
    assert "in.csv" in run.stderr
    assert "ermission" in run.stderr
    assert_untouched(target)


@pytest.mark.parametrize("kind", ["truncated_before", "truncated_in_a_quote"])
def test_truncated_input(target: Target, tmp_path: Path, kind: str) -> None:
    """A file that ends in the middle of a record is not stored up to there."""
    data = '1,x\n2,"y' if kind == "truncated_in_a_quote" else "1,x\n2"
    run = load(target, write(tmp_path / "in.csv", data), check=1)
    assert "in.csv" in run.stderr
    assert_untouched(target)


# ---- files that change while they are read -------------------------------------------------------------


def shrink(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 3)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def grow(path: Path) -> None:
    with path.open("a") as file:
        file.write("999999999,1,,appended\n")


def rewrite(path: Path) -> None:
    """Other bytes at the same length, in place."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size // 2)
        file.write(b"9" * (size // 4))


def replace(path: Path) -> None:
    """Another file by the same name, as an atomic writer makes it."""
    other = write_big_file(path.with_suffix(".new"), rows=200_000, first_id=10_000_000)
    os.rename(other.path, path)


def remove(path: Path) -> None:
    path.unlink()


@pytest.mark.client_only
@pytest.mark.parametrize("change", [shrink, empty, grow, rewrite, replace, remove])
@pytest.mark.parametrize("part", [0.25, 0.5, 0.75])
def test_a_file_that_changes_during_the_load(
    engine_target: Target,
    tmp_path: Path,
    big_file: BigFile,
    seconds: float,
    change: Callable[[Path], None],
    part: float,
) -> None:
    """All of the old file, where it was read by then (or is still held open), else an error and nothing."""
    path = tmp_path / "in.csv"
    path.write_bytes(big_file.path.read_bytes())
    engine_target.execute(TABLE)
    command = start_tipple(*load_words(engine_target.url, (path,), "t", {"jobs": 2}))
    try:
        with frozen(command, seconds * part):
            change(path)
    finally:
        run = command.wait()
    assert run.exit_code in (0, 1, 2), str(run)
    if run.exit_code == 0:
        held = big_file.held_by(engine_target)
        if held != big_file.expected:
            # The change came before the job looked at the file: then it is the new file, the whole of it.
            engine_target.execute(TABLE.replace("TABLE t", "TABLE twin"))
            load(engine_target, path, table="twin")
            assert held == big_file.held_by(engine_target, "twin"), "neither the old file nor the new one"
            engine_target.execute("DROP TABLE twin")
    else:
        assert engine_target.count("t") == 0
        assert "in.csv" in run.stderr
        if run.exit_code == 2:
            # Its sources were still being sampled, as late as that may be on a busy machine.
            begun = "tipple.job" in engine_target.tables() and engine_target.rows("SELECT state FROM tipple.job")
            assert not begun, "status 2 says that nothing was started"
    assert engine_target.leftovers("t") == set()


def test_source_changed_before_resume(engine_target: Target, tmp_path: Path, big_file: BigFile, seconds: float) -> None:
    """Two states of a file are never mixed: --resume refuses, and only a job from the start loads the new one."""
    path = tmp_path / "in.csv"
    path.write_bytes(big_file.path.read_bytes())
    engine_target.execute(TABLE)
    for part in (0.6, 0.5, 0.4, 0.3):
        command = start_tipple(*load_words(engine_target.url, (path,), "t", {"jobs": 2}))
        with frozen(command, seconds * part):
            command.signal(signal.SIGKILL)
        command.wait()
        if not engine_target.count("t"):
            break
        # Done before it could be killed: once more with another file, which is another job.
        engine_target.execute("DROP TABLE t")
        engine_target.execute(TABLE)
        path = path.rename(path.with_name(f"{part}.csv"))
    assert not engine_target.count("t")
    grow(path)
    jobs = (
        engine_target.rows("SELECT CAST(job_id AS varchar) FROM tipple.job")
        if "tipple.job" in engine_target.tables()
        else []
    )
    for (job,) in jobs:
        run = load(engine_target, path, resume=job, check=False)
        assert run.exit_code in (1, 2), str(run)
        assert engine_target.count("t") == 0
    run = load(engine_target, path, jobs=2, check=False)
    if run.exit_code != 0:
        assert run.exit_code == 1, str(run)
        assert path.name in run.stderr
        assert "--restart" in run.stderr
        assert engine_target.count("t") == 0
        load(engine_target, path, jobs=2, restart=True)
    query = "SELECT count(*), count(DISTINCT id), max(id) FROM t"
    assert engine_target.rows(query) == [(big_file.rows + 1, big_file.rows + 1, 999_999_999)]
