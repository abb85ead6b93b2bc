"""Files that were read the wrong way without a doubt: records lost, quotes stored, spaces taken for delimiters."""

from __future__ import annotations

from pathlib import Path

import pytest

from sniffing import decision, sniff, types
from targets import write
from tipple.plan.sniff_encoding import decide_encoding
from tipple.plan.sniff_options import spell
from tipple.plan.sniff_profile import LOW_CONFIDENCE, Given
from tipple.run.sniff import Sniffer

# ---- headers -----------------------------------------------------------------------------------------------

BELOW = "17,Smith,Paris\n{},Jones,Rome\n19,Hill,Bonn\n"
COUNTED = "".join(f"{i},a{i},b{i}\n" for i in range(2, 14))


@pytest.mark.parametrize(
    "first", [",Miller,Berlin", '"",Miller,Berlin', ',"Miller, John","said ""no"""', ',"a\nb","{""a"": 1}"']
)
@pytest.mark.parametrize("null", ["", "NULL", "12"])
def test_a_record_that_begins_with_an_empty_field(tmp_path: Path, first: str, null: str) -> None:
    """It is no header: read as one, it would be lost."""
    header = sniff(write(tmp_path / "a.csv", f"{first}\n{BELOW.format(null)}")).header
    assert header.value == "no"
    if first == ",Miller,Berlin":
        # Where no other field is empty, nothing tells it from a header over row labels.
        assert (header.confidence < LOW_CONFIDENCE) == (null == "12")


@pytest.mark.parametrize(
    ("data", "value", "sure"),
    [
        # Names over numbers.
        (",a,b\n0,1,2\n1,3,4\n", "yes", True),
        (",a,b\n17,1,2\n3,3,4\n5,4,6\n", "yes", True),
        (",a,b\n17,1,2\n,3,4\n5,4,6\n", "yes", False),
        # Nothing but texts beside labels: of pandas, which counts from 0, and of R, which does from 1.
        (f",artist,song\n0,x,y\n1,x,z\n{COUNTED}", "yes", True),
        (f"\"\",artist,song\n1,x,z\n{COUNTED}", "yes", True),
        (",artist,song\n0,x,y\n1,x,z\n2,u,v\n", "yes", False),
        ('"",artist,song\n"1",x,y\n"2",x,z\n"3",u,v\n', "no", False),
        # Databases sort NULL first.
        (f",artist,song\n{COUNTED}", "no", False),
        (",artist,song\n17,x,y\n9,x,z\n28,u,v\n", "no", False),
        (",headline\n2024-01-01,x\n2024-01-02,y\n", "no", False),
        # Usual names.
        (",name,city\n17,Ann,Rome\n9,Bob,Bonn\n28,Eve,Nice\n", "yes", True),
        (",name,city\n17,Ann,Rome\n,Bob,Bonn\n28,Eve,Nice\n", "yes", False),
        (",2020,2021\n0,1,2\n1,3,4\n", "yes", False),
    ],
)  # fmt: skip
def test_names_over_row_labels(tmp_path: Path, data: str, value: str, sure: bool) -> None:
    for delimiter, name in ((",", "a.csv"), ("\t", "a.tsv")):
        if '"' in data and name == "a.tsv":
            continue
        header = sniff(write(tmp_path / name, data.replace(",", delimiter))).header
        assert (header.value, header.confidence >= LOW_CONFIDENCE) == (value, sure), header


@pytest.mark.parametrize(
    "record",
    [
        "user{n},user{n}@email.com",
        "order-{n:05d};item-{m:05d};customer-{n:05d}",
        "key:{n}",
        "Customer#{n:09d},Supplier#{m:09d}",
        "key{n}=val {n}",
        "Product Name {n},Category {n}",
        "Item {n}",
        "url/{n}",
    ],
)
@pytest.mark.parametrize("count", [2, 3, 1000])
def test_a_first_record_that_only_its_numbers_tell_from_the_others(tmp_path: Path, record: str, count: int) -> None:
    """It is made of usual names, and would be lost as a header."""
    text = "".join(record.format(n=n, m=7 * n) + "\n" for n in range(1, count + 1))
    header = sniff(write(tmp_path / "a.csv", text)).header
    assert header.value == "no", header
    assert header.confidence >= LOW_CONFIDENCE


@pytest.mark.parametrize(
    ("text", "value", "sure"),
    [
        # One among others that are different: who knows.
        ("Street 1,x\nKai,y\nStreet 2,z\nHill,u\nGate,v\n", "no", False),
        ("address1,address2\nHill,Kai\nGate,Lane\nKai,Gate\n", "yes", True),
        ("Address 1,Address 2\n1 Hill,Flat 3\n2 Gate,Flat 4\n", "yes", True),
        ("order1,amount\norder2,3\norder3,4\norder4,5\n", "yes", True),
        ("email@address\nann@home\nbob@work\n", "no", False),
        # Columns without names, beside a usual name of one of numbers.
        ("id,a,,,b\n1,x,y,z,w\n2,x,y,z,w\n3,x,y,q,w\n", "yes", False),
        ("x7,a,,,b\n1,x,y,z,w\n2,x,y,z,w\n3,x,y,q,w\n", "no", True),
    ],
)
def test_names_with_numbers_and_names_that_are_missing(tmp_path: Path, text: str, value: str, sure: bool) -> None:
    header = sniff(write(tmp_path / "a.csv", text)).header
    assert (header.value, header.confidence >= LOW_CONFIDENCE) == (value, sure), header


@pytest.mark.parametrize(
    ("header", "record"),
    [
        ("artikel;preis", "A{n};{n},99 €"),
        ("id;ts", "{n};2024-01-01 00:00:01,123"),
        ("id|ts", "{n}|2024-01-01 00:00:01,123"),
        ("name;share", "n{n};5,5 %"),
        ("name\tcity", "n{n}\tParis, France"),
        ("name;tags", "n{n};a,b"),
        ("name;net;gross", "n{n};1,5 €;2,5 €"),
        ("name;coord", "n{n};1.5,1.25"),
    ],
)
@pytest.mark.parametrize("name", ["a.csv", "a.dat"])
@pytest.mark.parametrize("count", [2, 30, 5000])
def test_a_comma_in_every_record_but_in_no_name(
    tmp_path: Path, header: str, record: str, name: str, count: int
) -> None:
    """It is no delimiter, whatever the file is called: another one divides the header too."""
    text = "".join(f"{line}\n" for line in (header, *(record.format(n=n) for n in range(count))))
    sniffed = sniff(write(tmp_path / name, text))
    found = decision(sniffed, "delimiter")
    delimiter = next(character for character in header if not character.isalpha())
    assert found.value == spell(delimiter)
    assert found.confidence >= LOW_CONFIDENCE
    assert sniffed.profile.fields == len(header.split(delimiter))


@pytest.mark.parametrize(
    "text",
    [
        # Some records do not have it.
        "Sales; first quarter\n" + "a,b;c,d\na,b,c\n" * 20,
        # All do, but what it divides is less.
        "Sales|North\n" + "1,a|b,3\n2,c|d,4\n3,e|f,5\n" * 5,
        "Kunden; Export\n" + "Meier; Hans,5,x\nKunz; Eva,17,y\n" * 3,
    ],
)
def test_a_title_above_records_divided_by_commas(tmp_path: Path, text: str) -> None:
    """Another delimiter that stands in it tells nothing."""
    assert decision(sniff(write(tmp_path / "a.csv", text)), "delimiter").value == ","


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        ("name,bbox\n" + "".join(f"Area {n},{n};2;3;4\n" for n in range(9)), ","),
        ("name,tags\n" + "".join(f"a{n},{n}|2|3|4\n" for n in range(9)), ","),
        # In a title a space stands behind the comma; and nothing names a column above these.
        ("Sales, 2024\n" + "".join(f"Hill, J{n};{n};3;4\n" for n in range(9)), ";"),
        ("".join(f"Area {n},{n};2;3;4\n" for n in range(9)), ";"),
    ],
)
def test_lists_in_the_last_column(tmp_path: Path, text: str, delimiter: str) -> None:
    """What divides the header and all records as often is the delimiter, as the name says."""
    sniffed = sniff(write(tmp_path / "a.csv", text))
    assert sniffed.dialect.delimiter == delimiter
    assert sniffed.profile.fields == (2 if delimiter == "," else 4)


@pytest.mark.parametrize(
    ("text", "value", "sure"),
    [
        ("Country Name,Code,1960,1961,1962\nA,a,5,17,90000\nB,b,6,1234,70000\nC,c,7,18,80000\n", "yes", True),
        ("Country Name,Code,1962,1961,1960\nA,a,5,17,..\nB,b,..,1234,70000\nC,c,7,18,80000\n", "yes", True),
        ("Land,1960,1961,1962\nA,,17,90000\nB,,1234,70000\nC,,18,80000\n", "yes", True),
        ("geo,2019,2020\nDE,5,60000\nFR,7,80000\n", "yes", True),
        ("geo,2019,2020\nDE,5,60000\n", "yes", False),
        # Years below too, or the text above.
        ("FR,2019,2020\nDE,2019,2021\nIT,2020,2021\n", "no", True),
        ("FR,2019,2020\nDE,2019,45\nIT,2020,7\n", "no", False),
        ("FR,2019,2020,2021\nDE,5,60000,1\nFR,7,80000,2\n", "no", False),
        # Not in a row, one alone, or beside another text.
        ("geo,2019,2023\nDE,5,60000\nFR,7,80000\n", "no", False),
        ("Road,2024\nHill,5\nWay,77\n", "no", False),
        ("FR,2019,2020,x\nDE,5,60000,y\nIT,7,80000,z\n", "no", False),
    ],
)
def test_years_in_a_row_are_names(tmp_path: Path, text: str, value: str, sure: bool) -> None:
    header = sniff(write(tmp_path / "a.csv", text)).header
    assert (header.value, header.confidence >= LOW_CONFIDENCE) == (value, sure), header


@pytest.mark.parametrize(
    ("text", "value", "sure"),
    [
        # Two files that were put together; a name that is a value as well.
        (2 * ("name,city\n" + "".join(f"Person {n},Town {n}\n" for n in range(40))), "yes", False),
        ("name,city\n" + "".join(f"Person {n},Town {n}\n" for n in range(300)) + "name,Rome\n", "yes", False),
        # Values that occur often, and records that nothing calls names.
        ("name,city\n" + "name,Rome\nsurname,city\n" * 10, "no", True),
        ("name,city\n" + "".join(f"Person {n},Town {n}\nname,Rome\n" for n in range(40)), "no", True),
        (2 * ("Hill,Kai\n" + "".join(f"Person {n},Town {n}\n" for n in range(40))), "no", True),
    ],
)
def test_usual_names_that_occur_again_below(tmp_path: Path, text: str, value: str, sure: bool) -> None:
    header = sniff(write(tmp_path / "a.csv", text)).header
    assert (header.value, header.confidence >= LOW_CONFIDENCE) == (value, sure), header


def test_a_header_of_several_files_that_a_value_is_like(tmp_path: Path) -> None:
    texts = ("red,blue\nOption 3,green\nyellow,pink\n", "black,white\ngrey,brown\nred,gold\n")
    paths = [str(write(tmp_path / f"{i}.csv", f"Option 1,Option 2\n{text}")) for i, text in enumerate(texts)]
    assert Sniffer(paths, "auto", Given()).look(None).header.value == "yes"


def test_files_that_begin_with_different_empty_fields(tmp_path: Path) -> None:
    paths = [str(write(tmp_path / f"{i}.csv", f",Miller {i},Berlin\n{BELOW.format('')}")) for i in range(2)]
    sniffed = Sniffer(paths, "auto", Given()).look(None)
    assert sniffed.header.value == "no"
    assert not sniffed.different_headers
    assert not sniffed.headers_of_some


# A first record over `Bob1,71`, `Bob2,72` and so on.
MISSING = [".", "#N/A", "n/a", "(null)", "--", "NULL", "TBD", "*", "..", "<NA>"]
MARKED = ["<0.5", ">100", "(5.00)", "$5", "5%", "5-", "5*", "unknown", "none", "5-7"]


def over_numbers(first: str, records: str = "Bob{n},7{n}") -> str:
    """Records below a first one."""
    return "".join(f"{line}\n" for line in (first, *(records.format(n=n) for n in range(1, 10))))


@pytest.mark.parametrize("value", [*MISSING, *MARKED])
def test_a_first_record_whose_number_is_missing_or_marked(tmp_path: Path, value: str) -> None:
    """Read as a header it would be lost."""
    header = sniff(write(tmp_path / "a.csv", over_numbers(f"Anna,{value}"))).header
    assert (header.value, header.confidence < LOW_CONFIDENCE) == ("no", value in MARKED), header
    if value in MISSING:
        several = over_numbers(f"K-17,{value},{value}", "K-2{n},7,2024-01-0{n}")
        assert sniff(write(tmp_path / "b.csv", several)).header.value == "no"


@pytest.mark.parametrize(
    ("first", "records", "sure"),
    [
        ("sample,Na,K", "S{n},7{n},5", True),
        ("gender,male,female,unknown", "g{n},1,2,3", True),
        ("answer,none,some,all", "a{n},1,2,3", True),
        ("date,unknown", "2024-01-0{n},5", True),
        ("#,Name,Points", "{n},N{n},5", True),
        (",count,mean,25%,50%", "m{n},1{n},2.5,3,4", True),
        ("team,2019/20,2020/21", "t{n},3,{n}", True),
        ("region,2020-01,2020-02", "r{n},5.{n},6", True),
        # Classes in their order are names most likely.
        ("metric,25%,50%,75%", "m{n},1{n},2,3", False),
        ("age,<18,18-25,26+", "g{n},3,{n},5", False),
    ],
)
def test_names_that_are_like_missing_or_marked_values(tmp_path: Path, first: str, records: str, sure: bool) -> None:
    header = sniff(write(tmp_path / "a.csv", over_numbers(first, records))).header
    assert (header.value, header.confidence >= LOW_CONFIDENCE) == ("yes", sure), header


@pytest.mark.parametrize(
    ("first", "records", "sure"),
    [
        ("0,1,2", "Anna,Berlin,2024-01-0{n}", False),
        ("0,1", "2024-01-0{n},{n}.5", False),
        ("0", "Anna{n}", False),
        ("0,1", "{n},5", True),
        ("0,2", "2024-01-0{n},{n}.5", True),
        ("0", "{n}.5", True),
    ],
)
def test_places_in_place_of_names(tmp_path: Path, first: str, records: str, sure: bool) -> None:
    """As pandas writes a frame whose columns were never named."""
    header = sniff(write(tmp_path / "a.csv", over_numbers(first, records))).header
    assert (header.value, header.confidence >= LOW_CONFIDENCE) == ("no", sure), header


@pytest.mark.parametrize(
    ("texts", "sure"),
    [
        (("stadt,land\nWien,AT\nGraz,AT\n", "Bern,CH\nGenf,CH\n"), False),
        (("Wien,1\nGraz,2\n", "Bern,3\nGenf,4\n"), True),
        (("Wien,AT\nGraz,AT\n", "Bern,CH\nGenf,CH\n"), True),
    ],
)
def test_a_header_in_the_first_part_only(tmp_path: Path, texts: tuple[str, ...], sure: bool) -> None:
    """Where nothing but texts is below, it may be one, as in a single file."""
    paths = [str(write(tmp_path / f"{i}.csv", text)) for i, text in enumerate(texts)]
    header = Sniffer(paths, "auto", Given()).look(None).header
    assert (header.value, header.confidence >= LOW_CONFIDENCE) == ("no", sure), header


# ---- apostrophes -------------------------------------------------------------------------------------------

SOME = "".join(f"{i},'{i}.5'\n{i},{i}.25\n{i},\n" for i in range(1000))
MORE = "".join(f"{i},x,y\n" for i in range(30))


@pytest.mark.parametrize(
    ("data", "sure", "expected"),
    [
        ("k,v\n1,'-8.5'\n2,9.25\n3,'-1.0'\n", True, ["bigint", "numeric"]),
        (f"k,v\n{SOME}", True, ["bigint", "numeric"]),
        ("k,v\n1,'2024-01-01'\n2,2024-01-02\n", True, ["bigint", "date"]),
        ("1|'-8.5'\n2|9.25\n3|'1.5'\n", True, ["bigint", "numeric"]),
        ("1;'-8.5';\n2;9.25;\n3;'1.5';\n", True, ["bigint", "numeric"]),
        ("1,'-8.5'\n2,9.25\n3,7\n", True, ["bigint", "numeric"]),
        ("v\n'1'\n2\n3\n", True, ["bigint"]),
        ("'id','v'\n" + "1,x\n2,y\n" * 25, True, ["bigint", "text"]),
        ("1,'a\\'b'\n2,x\n3,y\n4,'z'\n", True, ["bigint", "text"]),
        ("1,'a b','c'\n2,x,y\n3,'z',y\n", True, ["bigint", "text", "text"]),
        (f"1,'a b','c'\n2,x,y\n3,'z',y\n{MORE}", False, ["bigint", "text", "text"]),
    ],
)
def test_apostrophes_around_some_values(tmp_path: Path, data: str, sure: bool, expected: list[str]) -> None:
    sniffed = sniff(write(tmp_path / "a.csv", data))
    quote = decision(sniffed, "quote")
    assert (quote.value, quote.confidence >= LOW_CONFIDENCE) == ("'", sure)
    assert types(sniffed) == expected


@pytest.mark.parametrize(
    ("data", "sure"),
    [
        ("1,'tis\n2,O'Neil\n3,rock 'n' roll\n4,'99\n", True),
        ("1,'tis\n2,goin'\n3,x\n", True),
        ("1,'tis\n2,'twas\n3,x\n", True),
        ("1,'a'\n2,O'Neil\n3,'b'\n", True),
        ("1,'Well', he said\n2,it's\n3,'b'\n", True),
        # One title in apostrophes may be called so.
        ("id,title\n1,'Heroes'\n2,Changes\n3,Starman\n", False),
        ("v\n'a'\nb\nc\n", False),
    ],
)
def test_apostrophes_in_texts(tmp_path: Path, data: str, sure: bool) -> None:
    quote = decision(sniff(write(tmp_path / "a.csv", data)), "quote")
    assert quote.value != "'"
    assert sure or quote.confidence < LOW_CONFIDENCE
    assert sure or quote.alternatives == ("'",)


# ---- spaces ------------------------------------------------------------------------------------------------


def test_spaces_that_align_fields(tmp_path: Path) -> None:
    """They make an empty column, and are none to divide fields by for it."""
    data = " 21 :1\n 89 :1\n 29 :1\n"
    found = decision(sniff(write(tmp_path / "a.csv", data)), "delimiter")
    assert found.value == ","
    assert found.confidence < LOW_CONFIDENCE
    assert found.alternatives[0] == ":"
    assert decision(sniff(write(tmp_path / "a.csv", data.replace(":", ";"))), "delimiter").value == ";"
    aligned = decision(sniff(write(tmp_path / "a.dat", " 1 2.5 x\n 2 3.5 y\n")), "delimiter")
    assert (aligned.value, aligned.confidence < LOW_CONFIDENCE) == (" ", True)
    assert "align" in aligned.reason
    assert decision(sniff(write(tmp_path / "a.dat", "1 2.5 x\n2 3.5 y\n")), "delimiter").confidence >= LOW_CONFIDENCE


def test_values_between_colons(tmp_path: Path) -> None:
    """Times are values themselves; where only the parts are values, one column is a doubtful reading."""
    for data, sure in (
        ("12:30\n13:45\n", True),
        ("2024-01-01 12:00:00\n2024-01-02 13:00:00\n", True),
        ("3:1\n2:2\n", False),
    ):
        found = decision(sniff(write(tmp_path / "a.csv", data)), "delimiter")
        assert (found.value, found.confidence >= LOW_CONFIDENCE) == (",", sure)


# ---- encodings ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "10 €", "€5", "(€)", "it’s", "l’an", "d’un", "O’Neil", "œuvre", "«oui»,été", "« oui »", "20 °C", "21°", "“a b”",
        "‘it’s’", "„Haus“", "5–10", "a – b", "5 ½", "5½", "© 2020", "Word™", "Word®", "£5", "§ 5", "m²", "5 × 3", "±5",
        "“it’s…”", "Škoda 5 €", "à 5 €",
    ],
)  # fmt: skip
def test_signs_of_windows(text: str) -> None:
    found = decide_encoding([f"id,t\n1,{text}\n2,x\n".encode("cp1252")])
    assert (found.value, found.confidence < LOW_CONFIDENCE) == ("WIN1252", True)
    # There € and ’ would be control characters.
    assert ("LATIN1" in found.alternatives) == all(character < "\u0100" for character in text)


@pytest.mark.parametrize(
    "text", ["città", "Malmö", "öl", "5 à 10", "è", "più", "Über", "Ærø", "«oui»", "5 ½", "año", "10 £", "ä,ö", "été"]
)
def test_letters_of_dos_are_no_signs(text: str) -> None:
    assert decide_encoding([f"id,t\n1,{text}\n2,x\n".encode("cp850")]).value == "UTF8"


@pytest.mark.parametrize("text", ["Größe", "Größe und Straße", "Lange Straße, Größe, Fuß, Maß"])
def test_words_of_dos_whose_letters_are_quotes_of_windows(text: str) -> None:
    """`Gr”áe` is no word, whatever language it is."""
    found = decide_encoding([f"id,t\n1,{text}\n2,x\n".encode("cp850")])
    assert (found.value, "DOS" in found.reason) == ("UTF8", True)


def test_signs_of_windows_that_lack_a_space() -> None:
    assert decide_encoding(["1,él dijo “hola”y más\n".encode("cp1252")]).value == "WIN1252"
    assert decide_encoding(
        ["1,año, corazón, país, café, más, él, aquí, día, niño, été•x\n".encode("cp1252")]
    ).value == ("WIN1252")


def test_a_letter_that_may_be_of_dos_or_of_windows() -> None:
    found = decide_encoding(["1,Lange Straße\n".encode("cp850")])
    assert (found.value, found.confidence < LOW_CONFIDENCE, "CP850" in found.reason) == ("WIN1252", True, True)


@pytest.mark.parametrize(
    "data",
    [
        b"1,wait\x85\n",
        b"1,\x9a\n",
        b"1,\x8akoda\n",
        b"1,\x93a\n",
        b"1,5 \x80\x00\n",
        "1,5 €\n2,grün\n".encode() + b"3,5 \x80\n",
    ],
)
def test_what_may_be_anything_else(data: bytes) -> None:
    assert decide_encoding([data]).value == "UTF8"


def test_signs_of_many_lines() -> None:
    """A few of them tell; one oddity among many is a bad record."""
    text = "1,it’s\n2,“x” – 5 €\n".encode("cp1252") * 20_000
    assert decide_encoding([text + b"3,\x81\n", text]).value == "WIN1252"


@pytest.mark.parametrize("suffix", ["txt", "tsv", "dat", "csv"])
@pytest.mark.parametrize("head", ["id,qty\n", ""])
def test_two_integers_are_no_decimal_comma(tmp_path: Path, suffix: str, head: str) -> None:
    """`1,1` and `1,10` would be one number."""
    found = sniff(write(tmp_path / f"in.{suffix}", head + "1,1\n1,10\n2,5\n3,25\n"))
    assert types(found) == ["bigint", "bigint"]
    assert types(sniff(write(tmp_path / "price.txt", "price\n1,5\n2,75\n"))) == ["numeric"]
