//! Where an error of COPY has its record: `COPY t, line 7, column c: "x"`, in whatever language the server speaks.
//!
//! An ordinary role cannot choose that language (`lc_messages` is a superuser's setting), so the words are not counted on: the
//! table's name stands first or behind `COPY`, then the line's number, then the column's name before a colon. That is so
//! in each translation that PostgreSQL has.

/// Between the table and the number, and between that and the column's name, stand a word or two.
const MOST_WORDS_BYTES: usize = 40;

/// Line number and column that `context` names, of a COPY into `table (column_list)`, both quoted.
pub(super) fn place(context: &str, table: &str, column_list: &str) -> (Option<u64>, Option<String>) {
    let names = identifiers(table);
    let Some(table) = names.last() else { return (None, None) };
    // Other lines may stand around it: a type's own (`JSON data, line 1: …`), a trigger's function.
    let mut beginnings = context.lines().flat_map(|line| [line.strip_prefix("COPY "), Some(line)]).flatten();
    let found = beginnings.find_map(|beginning| number(beginning.strip_prefix(table.as_str())?));
    found.map_or((None, None), |(line, behind)| (Some(line), column(behind, column_list)))
}

/// The number in what stands behind the table's name, and what follows it.
fn number(behind: &str) -> Option<(u64, &str)> {
    let goes_on = behind.starts_with(|letter: char| letter.is_ascii_alphanumeric() || "_(".contains(letter));
    let begin =
        behind.find(|letter: char| letter.is_ascii_digit()).filter(|&place| !goes_on && place <= MOST_WORDS_BYTES)?;
    let end =
        behind[begin..].find(|letter: char| !letter.is_ascii_digit()).map_or(behind.len(), |length| begin + length);
    Some((behind[begin..end].parse().ok()?, &behind[end..]))
}

/// The column named behind the number; the text of a value or a record may follow it, behind a colon.
fn column(behind: &str, column_list: &str) -> Option<String> {
    // A word may stand behind it too, and blanks that break no line before the colon.
    let ends = |rest: &str| {
        let rest = rest.trim_start_matches([' ', '열', '\u{a0}', '\u{202f}']);
        rest.is_empty() || rest.starts_with(':')
    };
    let mut names = identifiers(column_list);
    names.sort_by_key(|name| std::cmp::Reverse(name.len()));
    names.into_iter().find(|name| {
        let place = behind.match_indices(name.as_str()).map(|(place, _)| place).find(|&place| {
            behind[..place].ends_with(' ') && place <= MOST_WORDS_BYTES && ends(&behind[place + name.len()..])
        });
        place.is_some_and(|place| !behind[..place].contains(':'))
    })
}

/// The names in `"a"."b"` or `"a", "b""c"`.
fn identifiers(quoted: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut open: Option<String> = None;
    let mut letters = quoted.chars().peekable();
    while let Some(letter) = letters.next() {
        match (&mut open, letter) {
            (Some(name), '"') if letters.next_if_eq(&'"').is_some() => name.push('"'),
            (Some(_), '"') => names.extend(open.take()),
            (Some(name), letter) => name.push(letter),
            (None, '"') => open = Some(String::new()),
            (None, _) => {}
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::{identifiers, place};

    /// Of PostgreSQL 15's translations: with a column and a value, with a record, with neither.
    const TRANSLATIONS: [[&str; 3]; 14] = [
        ["COPY %s, line %l, column %c: \"%v\"", "COPY %s, line %l: \"%v\"", "COPY %s, line %l"],
        ["COPY %s, Zeile %l, Spalte %c: »%v«", "COPY %s, Zeile %l: »%v«", "COPY %s, Zeile %l"],
        ["COPY %s, línea %l, columna %c: «%v»", "COPY %s, línea %l: «%v»", "COPY %s, línea %l"],
        ["COPY %s, ligne %l, colonne %c : « %v »", "COPY %s, ligne %l : « %v »", "COPY %s, ligne %l"],
        ["COPY %s, riga %l, colonna %c: \"%v\"", "COPY %s, riga %l: \"%v\"", "COPY %s, riga %l"],
        ["%sのCOPY、行 %l、列 %c: \"%v\"", "%sのCOPY、行 %l: \"%v\"", "%sのCOPY、行 %l"],
        ["COPY %s, ხაზი %l, სვეტი %c: \"%v\"", "COPY %s, ხაზი %l: \"%v\"", "COPY %s, ხაზი %l"],
        ["%s 복사, %l번째 줄, %c 열: \"%v\"", "%s 복사, %l번째 줄: \"%v\"", "%s 복사, %l번째 줄"],
        ["COPY %s, %l행, %c 열: null 입력", "%s 복사, %l번째 줄: \"%v\"", "%s 복사, %l번째 줄"],
        ["COPY %s, строка %l, столбец %c: \"%v\"", "COPY %s, строка %l: \"%v\"", "COPY %s, строка %l"],
        ["COPY %s, rad %l, kolumn %c: \"%v\"", "COPY %s, rad %l: \"%v\"", "COPY %s, rad %l"],
        ["COPY %s, рядок %l, стовпець %c: \"%v\"", "COPY %s, рядок %l: \"%v\"", "COPY %s, рядок %l"],
        ["COPY %s, 第 %l 行, 列 %c: \"%v\"", "COPY %s, 第 %l 行: \"%v\"", "COPY %s, 第 %l 行"],
        ["COPY %s, 第 %l 行, 欄位 %c: NULL 輸入", "COPY %s, 第 %l 行: \"%v\"", "COPY %s, 第 %l 行"],
    ];

    fn contexts(table: &str, line: u64, column: &str, value: &str) -> Vec<(String, bool)> {
        let fill = |form: &str| {
            let form = form.replace("%s", table).replace("%l", &line.to_string());
            form.replace("%c", column).replace("%v", value)
        };
        let told = |forms: &[&str; 3]| {
            let bare = forms[0].split([':', '\u{a0}']).next().unwrap_or_default().trim_end().to_owned();
            let with_column = [fill(forms[0]), fill(&bare)].map(|context| (context, true));
            with_column.into_iter().chain([fill(forms[1]), fill(forms[2])].map(|context| (context, false)))
        };
        TRANSLATIONS.iter().flat_map(told).collect()
    }

    #[test]
    fn every_language_names_line_and_column() {
        let columns = "\"a\", \"Spalte\", \"n\", \"my \"\"own\"\", 5\", \"column\"";
        for (table, name) in [("\"t\"", "t"), ("\"s\".\"my, table 3\"", "my, table 3"), ("\"x\".\"COPY\"", "COPY")] {
            for column in ["a", "Spalte", "n", "my \"own\", 5", "column"] {
                for value in ["x", "a", "7: n: \"a\"", " column a: "] {
                    for (context, has_column) in contexts(name, 12, column, value) {
                        let expected = has_column.then(|| column.to_owned());
                        assert_eq!(place(&context, table, columns), (Some(12), expected), "{context}");
                        let others = format!("JSON data, line 1: COPY x\nt() line 3\n{context}\nCOPY z, line 4");
                        assert_eq!(place(&others, table, columns).0, Some(12), "{others}");
                    }
                }
            }
        }
    }

    #[test]
    fn other_contexts_name_none() {
        for context in ["PL/pgSQL function f() line 3 at RAISE", "COPY t2, line 3", "COPY t", "COPY other, line 3", ""]
        {
            assert_eq!(place(context, "\"t\"", "\"a\""), (None, None), "{context}");
        }
    }

    #[test]
    fn identifiers_lose_their_quotes() {
        assert_eq!(identifiers("\"a\".\"b\"\"c\""), ["a", "b\"c"]);
        assert_eq!(identifiers("\"a, b\", \"c\""), ["a, b", "c"]);
        assert_eq!(identifiers("\"\"\"\""), ["\""]);
    }
}
