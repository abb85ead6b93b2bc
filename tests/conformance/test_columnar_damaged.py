"""What Parquet and Arrow files claim of themselves and is not so; and what looks like damage and is none."""

from __future__ import annotations

import base64
from pathlib import Path

import pandas
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as encryption
import pytest

import columnar_targets
from columnar_files import write_arrow_file, write_arrow_stream, write_parquet
from loading import load
from targets import DuckdbTarget, Target
from tipple.plan.parquet_footer import TAIL_BYTES, footer_bytes, has_encrypted_columns

engine_target = columnar_targets.engine_target
postgres_target = columnar_targets.postgres_target

ROWS = 777
WRITERS = {"file": write_arrow_file, "stream": write_arrow_stream}


@pytest.fixture
def target(tmp_path: Path) -> DuckdbTarget:
    return DuckdbTarget(tmp_path / "t.duckdb")


def test_labels_with_narrow_keys(engine_target: Target, tmp_path: Path) -> None:
    """The keys of each piece were wide enough for it, and are not for a batch of several."""
    engine_target.execute("CREATE TABLE t (id integer, city text)")
    path = tmp_path / "in.parquet"
    writer = None
    wanted = [(number, f"city{number % 350}") for number in range(2000)]
    for begin in range(0, len(wanted), 100):
        ids, cities = zip(*wanted[begin : begin + 100], strict=True)
        piece = pa.Table.from_pandas(pandas.DataFrame({"id": ids, "city": pandas.Categorical(cities)}))
        writer = writer or pq.ParquetWriter(path, piece.schema)
        writer.write_table(piece)
    assert writer is not None
    writer.close()
    load(engine_target, path)
    assert sorted(engine_target.rows("SELECT id, city FROM t")) == wanted


@pytest.mark.parametrize("keys", [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32()], ids=str)
@pytest.mark.parametrize("is_nested", [False, True])
def test_as_many_labels_as_keys(target: DuckdbTarget, tmp_path: Path, keys: pa.DataType, is_nested: bool) -> None:
    target.execute(f"CREATE TABLE t (a {'text[]' if is_nested else 'text'})")
    count = 2 ** min(keys.bit_width, 12) // (1 if str(keys).startswith("u") else 2)
    labels = [f"v{number}" for number in range(count)]
    values = pa.DictionaryArray.from_arrays(pa.array(range(count), keys), pa.array(labels))
    if is_nested:
        values = pa.ListArray.from_arrays(pa.array(range(count + 1), pa.int32()), values)
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"a": values}), path)
    load(target, path)
    assert sorted(target.rows("SELECT a FROM t")) == sorted(([it],) if is_nested else (it,) for it in labels)


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("is_dictionary", [False, True])
def test_a_packed_length_that_cannot_be(target: DuckdbTarget, tmp_path: Path, writer: str, is_dictionary: bool) -> None:
    """Memory is asked for by it, and there is no end of a process that is better than an error."""
    target.execute("CREATE TABLE t (a text)")
    values = pa.array(f"{number:010}" for number in range(ROWS))
    whole = pa.table({"a": values.dictionary_encode() if is_dictionary else values})
    path = tmp_path / "in.arrow"
    opened = pa.ipc.new_file if writer == "file" else pa.ipc.new_stream
    with opened(path, whole.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as file:
        file.write_table(whole)
    data = bytearray(path.read_bytes())
    # Of the texts' offsets, before a frame of LZ4.
    at = data.index((4 * (ROWS + 1)).to_bytes(8, "little") + b"\x04\x22\x4d\x18")
    for bit in (24, 33, 40, 46, 62, 63):
        spoilt = bytearray(data)
        spoilt[at + bit // 8] ^= 1 << bit % 8
        path.write_bytes(spoilt)
        run = load(target, path, check=1)
        assert "in.arrow: cannot be read" in run.stderr
        assert "the file is damaged" in run.stderr
    path.write_bytes(data)
    load(target, path)
    assert target.count("t") == ROWS


@pytest.mark.parametrize("writer", WRITERS)
def test_a_batch_that_claims_to_have_no_rows(target: DuckdbTarget, tmp_path: Path, writer: str) -> None:
    target.execute("CREATE TABLE t (a bigint); INSERT INTO t VALUES (1)")
    path = WRITERS[writer](tmp_path / "in.arrow", pa.table({"a": pa.array(range(ROWS), pa.int64())}))
    data = path.read_bytes()
    claim = ROWS.to_bytes(8, "little")
    places = [at for at in range(len(data)) if data.startswith(claim, at)]
    refused = 0
    for at in places:
        path.write_bytes(data[:at] + bytes(8) + data[at + 8 :])
        refused += load(target, path, mode="replace", check=1).stderr.count("another number of rows than its columns")
        assert target.sorted_rows("t") == [(1,)]
    assert refused


def test_row_groups_that_claim_to_have_no_rows(target: DuckdbTarget, tmp_path: Path) -> None:
    target.execute("CREATE TABLE t (a bigint); INSERT INTO t VALUES (1)")
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"a": pa.array(range(ROWS), pa.int64())}), path)
    data = path.read_bytes()
    # Thrift writes 777 as 1554, in groups of seven bits; and 0 in two bytes as 80 00.
    claim = bytes([0x80 | (2 * ROWS & 0x7F), 2 * ROWS >> 7])
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    found = False
    for at in range(footer, len(data) - 8):
        if data.startswith(claim, at):
            path.write_bytes(data[:at] + b"\x80\x00" + data[at + 2 :])
            metadata = pq.read_metadata(path)
            if (metadata.num_rows, metadata.row_group(0).num_rows) == (ROWS, 0):
                found = True
                run = load(target, path, mode="replace", check=1)
                assert f"its footer claims {ROWS} rows, and its row groups have none" in run.stderr
    assert found
    assert target.sorted_rows("t") == [(1,)]


@pytest.mark.parametrize("form", ["parquet", *WRITERS])
def test_no_rows_at_all(target: DuckdbTarget, tmp_path: Path, form: str) -> None:
    """That is no damage, be there a batch or none."""
    target.execute("CREATE TABLE t (a text, b integer[])")
    empty = pa.table({"a": pa.array([], pa.string()), "b": pa.array([], pa.list_(pa.int32()))})
    for number, batches in enumerate(([], empty.to_batches() or [pa.record_batch(empty.to_pydict(), empty.schema)])):
        path = tmp_path / f"{number}.data"
        if form == "parquet":
            with pq.ParquetWriter(path, empty.schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)
        else:
            opened = pa.ipc.new_file if form == "file" else pa.ipc.new_stream
            with opened(path, empty.schema) as file:
                for batch in batches:
                    file.write_batch(batch)
        load(target, path, format="parquet" if form == "parquet" else "arrow")
    assert target.count("t") == 0


class NoKeys(encryption.KmsClient):
    """Gives a key back as it is."""

    def __init__(self, _: encryption.KmsConnectionConfig) -> None:
        encryption.KmsClient.__init__(self)

    def wrap_key(self, key_bytes: bytes, _: str) -> bytes:
        return base64.b64encode(key_bytes)

    def unwrap_key(self, wrapped_key: bytes, _: str) -> bytes:
        return base64.b64decode(wrapped_key)


def write_encrypted(path: Path, table: pa.Table, column: str) -> Path:
    """A Parquet file of which this column is encrypted, and the footer is not."""
    factory = encryption.CryptoFactory(NoKeys)
    how = encryption.EncryptionConfiguration(footer_key="f", column_keys={"k": [column]}, plaintext_footer=True)
    properties = factory.file_encryption_properties(encryption.KmsConnectionConfig(), how)
    with pq.ParquetWriter(path, table.schema, encryption_properties=properties) as writer:
        writer.write_table(table)
    return path


def test_encrypted_columns(engine_target: Target, tmp_path: Path) -> None:
    """Of a file whose footer can be read."""
    engine_target.execute("CREATE TABLE t (a integer, b integer)")
    kinds = pa.schema([("a", pa.int32()), ("b", pa.int32()), ("c", pa.map_(pa.string(), pa.list_(pa.bool_())))])
    table = pa.table({"a": [1], "b": [2], "c": [[("x", [True])]]}, kinds)
    path = write_encrypted(tmp_path / "in.parquet", table, "a")
    run = load(engine_target, path, columns="a,b", check=1)
    assert f"{path} has encrypted columns, which are not read" in run.stderr
    assert "damaged" not in run.stderr
    load(engine_target, path, columns="b")
    assert engine_target.rows("SELECT a, b FROM t") == [(None, 2)]


def test_footers_that_are_damaged(tmp_path: Path) -> None:
    """Whoever looks for encrypted columns in one finds none, and comes to an end."""
    table = pa.table({"a": [1], "b": [[1.5]]})
    for path, is_encrypted in (
        (write_encrypted(tmp_path / "in.parquet", table, "a"), True),
        (write_parquet(tmp_path / "plain.parquet", table), False),
    ):
        data = path.read_bytes()
        footer = data[-TAIL_BYTES - footer_bytes(data[-TAIL_BYTES:]) : -TAIL_BYTES]
        assert has_encrypted_columns(footer) == is_encrypted
        for at in range(len(footer)):
            assert not has_encrypted_columns(footer[:at]) or is_encrypted
            for bit in range(8):
                spoilt = bytearray(footer)
                spoilt[at] ^= 1 << bit
                has_encrypted_columns(bytes(spoilt))
    assert not has_encrypted_columns(b"")
    assert not has_encrypted_columns(b"\x1c" * 10_000)


def test_an_arrow_file_of_an_old_version(engine_target: Target, tmp_path: Path) -> None:
    """Sound, but with the metadata that Arrow wrote before 1.0. As the hint says it is written anew."""
    engine_target.execute("CREATE TABLE t (a integer)")
    path, anew = tmp_path / "in.arrow", tmp_path / "anew.arrow"
    options = pa.ipc.IpcWriteOptions(metadata_version=pa.ipc.MetadataVersion.V4)
    with pa.ipc.new_file(path, pa.schema([("a", pa.int32())]), options=options) as writer:
        writer.write_table(pa.table({"a": pa.array([1], pa.int32())}))
    run = load(engine_target, path, check=1)
    assert "was written by Arrow before 1.0" in run.stderr
    assert "damaged" not in run.stderr
    with pa.ipc.open_file(path) as reader:
        pyarrow.feather.write_feather(reader.read_all(), anew)
    load(engine_target, anew)
    assert engine_target.rows("SELECT a FROM t") == [(1,)]
