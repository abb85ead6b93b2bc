"""Files as exporters write them, from `--format auto` to the rows: what was lost, merged or kept without a word."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from command import Run
from loading import load, load_here, load_text, load_text_here
from targets import Row, Target, write

DASHES = "id,name,amount,d\r\n--,----,------,----------\r\n" + "".join(
    f"{n},N{n},1.50,2024-01-02\r\n" for n in range(1, 9)
)
TYPES = "id\tn\td\nUInt64\tNullable(Decimal(18, 2))\tDate\n" + "".join(
    f"{n}\t{n}.50\t2024-01-02\n" for n in range(1, 9)
)
UNITS = "time,value\ns,m/s\n1,2.5\n2,3.5\n3,4.5\n"


def notes(run: Run) -> str:
    assert run.summary is not None
    return "\n".join(run.summary["notes"])


def pasted(text: str) -> dict[str, str]:
    """The options that a note or a remedy gives to leave a line out, as a shell reads them."""
    words = shlex.split(text[text.index("--skip-lines") : text.index(" leaves it out")])
    return {
        word.removeprefix("--").replace("-", "_"): value for word, value in zip(words[::2], words[1::2], strict=True)
    }


@pytest.mark.parametrize("value", [".", "#N/A", "n/a", "(null)", "<0.5", "(5.00)", "5%"])
def test_a_first_record_that_lacks_its_number(engine_target: Target, tmp_path: Path, value: str) -> None:
    text = f"Anna,{value}\n" + "".join(f"Bob{n},7{n}\n" for n in range(9))
    load_text_here(engine_target, tmp_path / "a.csv", text, schema="auto")
    assert engine_target.count("t") == 10


def test_a_first_record_that_lacks_its_numbers_in_a_table(engine_target: Target, tmp_path: Path) -> None:
    engine_target.execute("CREATE TABLE t (a varchar, b bigint, c date)")
    text = "K-17,n.a.,n.a.\n" + "".join(f"K-2{n},7,2024-01-0{n}\n" for n in range(1, 10))
    path = write(tmp_path / "a.csv", text)
    refused = load(engine_target, path, check=1)
    assert "--null n.a. reads it as NULL" in " ".join(refused.stderr.split())
    load(engine_target, path, null="n.a.")
    assert engine_target.rows("SELECT count(*), count(b), count(c) FROM t") == [(10, 9, 9)]


@pytest.mark.parametrize(
    ("name", "text", "columns"),
    [("a.csv", DASHES, 4), ("b.tsv", TYPES, 3), ("c.csv", UNITS, 2)],
    ids=["dashes", "types", "units"],
)
def test_a_line_below_the_header(engine_target: Target, tmp_path: Path, name: str, text: str, columns: int) -> None:
    """What the note says to leave it out does so, and columns are numbers and dates then."""
    path = write(tmp_path / name, text.encode())
    said = notes(load_here(engine_target, path, schema="auto", table="first"))
    assert "the record below the header (" in said
    load_here(engine_target, path, schema="auto", **pasted(said))
    sql = "SELECT data_type FROM information_schema.columns WHERE table_name = 't'"
    types = [str(found).lower() for (found,) in engine_target.rows(sql)]
    assert len(types) == columns
    assert sum(found in ("text", "varchar", "character varying") for found in types) == (name == "a.csv")
    assert engine_target.count("t") == len(text.splitlines()) - 2


@pytest.mark.parametrize("options", [{}, {"format": "csv"}], ids=["sniffed", "named"])
def test_a_line_of_dashes_into_a_table(engine_target: Target, tmp_path: Path, options: dict[str, str]) -> None:
    engine_target.execute("CREATE TABLE t (d date, id bigint, amount decimal(18, 2), name varchar)")
    path = write(tmp_path / "a.csv", DASHES.encode())
    refused = load_here(engine_target, path, check=1, **options)
    said = " ".join(refused.stderr.split())
    assert ("--null --" in said) == bool(options)
    load_here(engine_target, path, **options, **pasted(said))
    assert engine_target.rows("SELECT count(*), min(id), max(name) FROM t") == [(8, 1, "N8")]


def test_escapes_in_quotes(engine_target: Target, tmp_path: Path) -> None:
    """COPY keeps them, which is told."""
    text = "".join(f'"{n}"|"a\\|b"|"say \\"hi\\""\n' for n in range(9))
    said = notes(load_text(engine_target, tmp_path / "0000_part_00", text, schema="auto"))
    assert "not sure of --quote" in said
    assert "stay in the values" in said
    assert engine_target.value("SELECT min(column2) FROM t") == "a\\|b"


def test_inches_beside_texts_in_quotes(engine_target: Target, tmp_path: Path) -> None:
    """Between two marks, rows were swallowed."""
    texts = ["Anna", '5" pipe', '3/4" x 2" bolt', '"WOW"']
    text = "".join(f"{n},{texts[n % 4]},{n}.50,2024-01-02\n" for n in range(300))
    run = load_text(engine_target, tmp_path / "a.csv", text, schema="auto")
    assert "not sure of --quote" in notes(run)
    expected: list[Row] = [(value, 75) for value in sorted(texts)]
    assert sorted(engine_target.rows("SELECT column2, count(*) FROM t GROUP BY column2")) == expected


def test_inches_beside_a_field_that_needs_its_quotes(engine_target: Target, tmp_path: Path) -> None:
    """No reading is right; the note says what the other one makes of it."""
    text = 'id,size,price\n1,5" pipe,2.5\n2,6" pipe,4.5\n3,"nut, big",5.5\n4,nail,6\n'
    said = notes(load_text_here(engine_target, tmp_path / "a.csv", text, schema="auto"))
    assert "records hold line ends" in said
    assert "(--quote '\\x02') 4 of 5 lines have 3 fields" in said


@pytest.mark.parametrize("every", [1, 5])
def test_bars_after_every_field_beside_escaped_ones(engine_target: Target, tmp_path: Path, every: int) -> None:
    """As Informix unloads a table."""
    engine_target.execute("CREATE TABLE t (id bigint, name varchar, d date)")
    text = "".join(f"{n}|{chr(92).join(('a', '|b')) if n % every == 0 else 'ab'}|2024-01-02|\n" for n in range(50))
    load_text(engine_target, tmp_path / "a.unl", text)
    assert engine_target.rows("SELECT count(*) FROM t WHERE name = 'a|b'") == [(50 // every,)]


def test_files_that_were_put_together_with_their_marks(engine_target: Target, tmp_path: Path) -> None:
    text = "\ufeffname,n\nAnna,1\nBob,2\n\ufeffCid,3\nDan,4\n"
    said = notes(load_text_here(engine_target, tmp_path / "a.csv", text, schema="auto"))
    assert "begin with a byte order mark" in said
    engine_target.execute("CREATE TABLE u (n bigint, name varchar)")
    path = write(tmp_path / "b.csv", "\ufeff1,Anna\n2,Bob\n\ufeff3,Cid\n")
    refused = load_here(engine_target, path, table="u", check=1)
    assert "takes byte order marks out" in " ".join(refused.stderr.split())


def test_words_of_dos_are_refused(engine_target: Target, tmp_path: Path) -> None:
    data = ("id,name\n" + "".join(f"{n},Größe {n}\n" for n in range(40))).encode("cp850")
    refused = load_text_here(engine_target, tmp_path / "a.csv", data, schema="auto", check=1)
    assert "iconv -f CP850" in " ".join(refused.stderr.split())
