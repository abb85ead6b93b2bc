"""Reads `--schema FILE.sql`: which tables a file of SQL creates, so that an engine can create one itself.

A load fills a table under a private name and publishes it later, so it needs the parts of a CREATE TABLE
rather than its text: the columns first, the constraints when the rows are in. A full SQL parser would bring
far more than that; here a statement is cut into columns and constraints, and types, defaults and conditions
stay the text that they were. Whether that text is right is for the target to say.

Every statement other than CREATE TABLE is skipped, pg_dump's ALTER TABLE ... ADD CONSTRAINT among them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from tipple.errors import UsageError
from tipple.plan import constraints
from tipple.plan.sql_tokens import Token, join_tokens, statements
from tipple.plan.url import TableName, fold_identifier, quote_identifier

__all__ = ["ColumnDefinition", "TableDefinition", "find_table", "parse_schema"]


class ColumnDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """One column. Constraints other than NOT NULL stand with the table."""

    name: str
    """As the database holds it: folded or, where it was quoted, verbatim."""
    type_text: str
    not_null: bool
    """Also true for the columns of a primary key."""
    default_text: str | None
    """The expression after DEFAULT."""
    generated_text: str | None
    """`GENERATED ALWAYS AS IDENTITY` and the like, whole; such a column cannot always be loaded into."""
    attributes_text: str
    """What else belongs to the column: COLLATE, STORAGE, COMPRESSION; mostly empty."""
    line: int

    @property
    def sql(self) -> str:
        """The column for a CREATE TABLE."""
        parts = [quote_identifier(self.name), self.type_text, self.attributes_text]
        if self.default_text is not None:
            parts.append(f"DEFAULT {self.default_text}")
        if self.generated_text is not None:
            parts.append(self.generated_text)
        if self.not_null:
            parts.append("NOT NULL")
        return " ".join(part for part in parts if part)


class TableDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """One CREATE TABLE statement."""

    name: TableName
    columns: tuple[ColumnDefinition, ...]
    constraints: tuple[str, ...]
    """All constraints but NOT NULL, each in the form for a table (a column's own PRIMARY KEY becomes
    `PRIMARY KEY ("column")`), so that each also fits after ALTER TABLE ... ADD."""
    options_text: str
    """What stands after the closing parenthesis, such as `WITH (fillfactor=70)`; mostly empty."""
    unlogged: bool
    line: int
    """1-based line of the word CREATE."""
    unsupported: str | None = None
    """Why Tipple cannot create this table, or None."""
    is_guessed: bool = False
    """Whether no statement of a schema file is behind it."""

    @property
    def primary_key(self) -> tuple[str, ...]:
        """The columns of its primary key; none where it has none."""
        return next(filter(None, map(constraints.primary_key, self.constraints)), ())

    @property
    def reference_to_itself(self) -> str | None:
        """A foreign key of it that refers to the table itself, and refuses rows for it."""
        enforced = filter(constraints.is_enforced, self.constraints)
        return next((text for text in enforced if constraints.refers_to(text) == self.name.name), None)

    @property
    def has_keys(self) -> bool:
        """Whether the order of its rows decides which of them it takes."""
        return any(map(constraints.is_key, self.constraints))

    def refused(self, engine: str, reason: str, *, hint: str | None = None) -> UsageError:
        """What to say where an engine refuses the definition; `hint`: the remedy, where none is in its words."""
        if self.is_guessed:
            other = "create the table yourself, or write its CREATE TABLE statement and give it by --schema FILE.sql"
            return UsageError(f"--schema auto: {engine} refuses the table {self.name}: {reason}", hint=hint or other)
        return UsageError(
            f"{engine} refuses the definition of {self.name} (line {self.line}): {reason}",
            hint=hint or "correct the CREATE TABLE statement in the schema file",
        )

    def create_sql(self, qualified_name: str, with_constraints: bool, *, temporary: bool = False) -> str:
        """The statement that creates the table under another name.

        Args:
            qualified_name: the new name, quoted where needed, as `TableName.sql` gives it.
            with_constraints: False leaves out all but NOT NULL; add `constraints` after the load.
            temporary: makes it a table of the session.

        Raises:
            UsageError: the statement is of a kind that cannot be copied to another name.
        """
        if self.unsupported is not None:
            raise UsageError(
                f"line {self.line}: the table {self.name} cannot be created: {self.unsupported}",
                hint="create the table in the target yourself, then load into it without --schema",
            )
        elements = [column.sql for column in self.columns]
        if with_constraints:
            elements.extend(self.constraints)
        kind = "TEMP TABLE" if temporary else "UNLOGGED TABLE" if self.unlogged else "TABLE"
        tail = f" {self.options_text}" if self.options_text else ""
        return f"CREATE {kind} {qualified_name} (\n    " + ",\n    ".join(elements) + f"\n){tail}"


def plain_table(name: TableName, columns: Sequence[tuple[str, str, bool]]) -> TableDefinition:
    """A table of columns without defaults and constraints: name, type, whether it refuses NULL."""
    return TableDefinition(
        name=name,
        columns=tuple(
            ColumnDefinition(
                name=column,
                type_text=type_text,
                not_null=not_null,
                default_text=None,
                generated_text=None,
                attributes_text="",
                line=1,
            )
            for column, type_text, not_null in columns
        ),
        constraints=(),
        options_text="",
        unlogged=False,
        line=1,
        is_guessed=True,
    )


def parse_schema(sql: str) -> list[TableDefinition]:
    """All tables that the SQL text creates, in order.

    Raises:
        UsageError: a CREATE TABLE that cannot be understood, or a string, quote or comment that never ends.
            The message names the line.
    """
    tables = []
    for statement in statements(sql):
        table = _Statement(statement).create_table()
        if table is not None:
            tables.append(table)
    return tables


def find_table(tables: Sequence[TableDefinition], name: TableName) -> TableDefinition:
    """The definition to use for the table `name`.

    A schema counts only where both sides name one: a file written for one schema serves others too.

    Raises:
        UsageError: none or more than one fits.
    """
    exact = [table for table in tables if table.name == name]
    fitting = exact or [
        table for table in tables if table.name.name == name.name and (table.name.schema is None or name.schema is None)
    ]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        lines = ", ".join(str(table.line) for table in fitting)
        raise UsageError(
            f"the schema file creates the table {name} more than once (lines {lines})",
            hint="leave one CREATE TABLE in the file, or name the table with its schema",
        )
    known = ", ".join(str(table.name) for table in tables) or "none"
    raise UsageError(f"the schema file has no CREATE TABLE for {name}", hint=f"it creates these tables: {known}")


_COLUMN_KEYWORDS = frozenset(
    {
        "AS",
        "CHECK",
        "COLLATE",
        "COMPRESSION",
        "CONSTRAINT",
        "DEFAULT",
        "DEFERRABLE",
        "ENFORCED",
        "GENERATED",
        "INITIALLY",
        "NO",
        "NOT",
        "NULL",
        "PRIMARY",
        "REFERENCES",
        "STORAGE",
        "UNIQUE",
    }
)
"""Words that end a column's type or default: each is reserved in PostgreSQL, or can be nothing else at that place."""


class _Statement:
    """The tokens of one statement, and a position in them. Methods take what they name and move on."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens
        self.position = 0

    # Looking and taking.

    def peek(self, ahead: int = 0) -> Token | None:
        index = self.position + ahead
        return self.tokens[index] if index < len(self.tokens) else None

    def at(self, *words: str) -> bool:
        """Whether the next tokens are these words or signs."""
        for ahead, word in enumerate(words):
            token = self.peek(ahead)
            if token is None or token.word != word:
                return False
        return True

    def take(self, *words: str) -> bool:
        if not self.at(*words):
            return False
        self.position += len(words)
        return True

    def take_one_of(self, words: tuple[str, ...]) -> bool:
        token = self.peek()
        taken = token is not None and token.word in words
        self.position += taken
        return taken

    @property
    def line(self) -> int:
        token = self.peek() or self.tokens[-1]
        return token.line

    def fail(self, expected: str) -> UsageError:
        token = self.peek()
        found = "the statement ends" if token is None else f"there is {token.text!r}"
        return UsageError(
            f"line {self.line}: {expected} was expected, but {found}",
            hint="correct the CREATE TABLE statement in the schema file",
            detail={"line": self.line},
        )

    def expect(self, word: str) -> None:
        if not self.take(word):
            raise self.fail(repr(word))

    def identifier(self, what: str) -> str:
        token = self.peek()
        if token is None or token.kind not in ("word", "quoted"):
            raise self.fail(what)
        self.position += 1
        name = fold_identifier(token.text)
        if not name:
            self.position -= 1
            raise self.fail(what)
        return name

    def table_name(self) -> TableName:
        parts = [self.identifier("a table name")]
        while self.take("."):
            parts.append(self.identifier("a table name"))
        # A third part is the database, which the target's URL decides.
        return TableName(parts[-2] if len(parts) > 1 else None, parts[-1])

    def group(self) -> None:
        """Take one balanced pair of brackets and all within."""
        if not self.take_one_of(("(", "[")):
            raise self.fail("'('")
        depth = 1
        while depth:
            if self.peek() is None:
                raise self.fail("')'")
            if self.take_one_of(("(", "[")):
                depth += 1
            elif self.take_one_of((")", "]")):
                depth -= 1
            else:
                self.position += 1

    def piece(self, what: str = "more") -> None:
        """Take one token, or a pair of brackets with all within."""
        if self.at("(") or self.at("["):
            self.group()
        elif self.peek() is None or self.at(")") or self.at("]"):
            raise self.fail(what)
        else:
            self.position += 1

    def text_since(self, start: int) -> str:
        return join_tokens(self.tokens[start : self.position])

    def at_element_end(self) -> bool:
        return self.peek() is None or self.at(",") or self.at(")")

    # The grammar, from the outside in.

    def create_table(self) -> TableDefinition | None:
        """The table that this statement creates, or None for any other statement."""
        line = self.line
        if not self.take("CREATE"):
            return None
        self.take("OR", "REPLACE")
        self.take_one_of(("GLOBAL", "LOCAL"))
        temporary = self.take_one_of(("TEMP", "TEMPORARY"))
        unlogged = not temporary and self.take("UNLOGGED")
        if not self.take("TABLE"):
            return None
        self.take("IF", "NOT", "EXISTS")
        name = self.table_name()
        if not self.at("("):
            kinds = {"PARTITION": "it is a partition of another table", "OF": "it is made from a type"}
            for word, reason in kinds.items():
                if self.at(word):
                    return _unsupported(name, reason, line)
            if self.at("AS") or self.at("WITH") or self.at("USING"):
                return _unsupported(name, "its columns come from a query", line)
            raise self.fail("'('")
        if self._is_name_list_of_a_query():
            return _unsupported(name, "its columns come from a query", line)
        return self.table_body(name, line, temporary=temporary, unlogged=unlogged)

    def _is_name_list_of_a_query(self) -> bool:
        """`(a, b) AS SELECT ...`: names without types, and a query after them."""
        start = self.position
        self.group()
        query = any(token.word == "AS" for token in self.tokens[self.position :])
        self.position = start
        return query

    def table_body(self, name: TableName, line: int, *, temporary: bool, unlogged: bool) -> TableDefinition:
        self.expect("(")
        columns: list[ColumnDefinition] = []
        constraints: list[str] = []
        key_columns: set[str] = set()
        unsupported = "it is a temporary table" if temporary else None
        while True:
            if self.at("LIKE"):
                unsupported = "its columns come from another table (LIKE)"
                while not self.at_element_end():
                    self.piece()
            elif self.at_table_constraint():
                self.table_constraint(constraints, key_columns)
            else:
                columns.append(self.column(constraints, key_columns))
            if self.take(")"):
                break
            if not self.take(","):
                raise self.fail("',' or ')'")
        if not columns and unsupported is None:
            raise UsageError(
                f"line {line}: the table {name} has no columns",
                hint="correct the CREATE TABLE statement in the schema file",
            )
        self._check_names(columns, key_columns)
        start = self.position
        for token in self.tokens[start:]:
            if token.word == "PARTITION":
                unsupported = "it is partitioned"
            elif token.word == "INHERITS":
                unsupported = "it inherits columns from another table"
        self.position = len(self.tokens)
        return TableDefinition(
            name=name,
            columns=tuple(
                msgspec.structs.replace(column, not_null=column.not_null or column.name in key_columns)
                for column in columns
            ),
            constraints=tuple(constraints),
            options_text=self.text_since(start),
            unlogged=unlogged,
            line=line,
            unsupported=unsupported,
        )

    def _check_names(self, columns: Sequence[ColumnDefinition], key_columns: Iterable[str]) -> None:
        seen: dict[str, int] = {}
        for column in columns:
            if column.name in seen:
                raise UsageError(
                    f"line {column.line}: the column {column.name!r} was already defined in line {seen[column.name]}",
                    hint="correct the CREATE TABLE statement in the schema file",
                )
            seen[column.name] = column.line
        for name in sorted(key_columns):
            if columns and name not in seen:
                raise UsageError(
                    f"line {columns[0].line}: the primary key names {name!r}, which is no column",
                    hint="correct the CREATE TABLE statement in the schema file",
                )

    def at_table_constraint(self) -> bool:
        if self.at("EXCLUDE"):
            # Not reserved, so a column may have this name.
            return self.at("EXCLUDE", "USING") or self.at("EXCLUDE", "(")
        return any(
            self.at(*words)
            for words in (
                ("CONSTRAINT",),
                ("PRIMARY", "KEY"),
                ("UNIQUE",),
                ("CHECK",),
                ("FOREIGN", "KEY"),
                ("NOT", "NULL"),
            )
        )

    def table_constraint(self, found: list[str], key_columns: set[str]) -> None:
        start = self.position
        if self.take("CONSTRAINT"):
            self.identifier("a constraint name")
        if self.at("NOT", "NULL"):
            # PostgreSQL 18 and later write NOT NULL in this form too.
            self.position += 2
            key_columns.add(self.identifier("a column name"))
            self.constraint_attributes()
        else:
            primary = self.take("PRIMARY", "KEY")
            if primary and self.at("("):
                key_columns.update(self._names_in_group())
            while not self.at_element_end():
                self.piece()
            found.append(constraints.validated(self.text_since(start)))
        if not self.at_element_end():
            raise self.fail("',' or ')'")

    def _names_in_group(self) -> list[str]:
        """The identifiers of `(a, b)`, without moving on."""
        start = self.position
        self.group()
        names = [
            fold_identifier(token.text)
            for token in self.tokens[start : self.position]
            if token.kind in ("word", "quoted") and token.word not in ("WITHOUT", "OVERLAPS")
        ]
        self.position = start
        return names

    def column(self, constraints: list[str], key_columns: set[str]) -> ColumnDefinition:
        line = self.line
        name = self.identifier("a column name")
        start = self.position
        while not self.at_element_end() and not self._at_column_keyword():
            self.piece()
        type_text = self.text_since(start)
        if not type_text:
            raise self.fail(f"the type of the column {name!r}")
        not_null = False
        default_text: str | None = None
        generated_text: str | None = None
        attributes: list[str] = []
        while not self.at_element_end():
            start = self.position
            constraint_name = ""
            if self.take("CONSTRAINT"):
                self.identifier("a constraint name")
                constraint_name = self.text_since(start) + " "
            start = self.position
            if self.take("NOT", "NULL"):
                not_null = True
                self.constraint_attributes()
            elif self.take("NULL"):
                pass
            elif self.take("DEFAULT"):
                default_text = self._expression()
            elif self.at("GENERATED") or self.at("AS"):
                self._generated()
                generated_text = self.text_since(start)
            elif self.take_one_of(("COLLATE", "STORAGE", "COMPRESSION")):
                self.piece()
                while self.take("."):
                    self.piece()
                attributes.append(self.text_since(start))
            elif self.take("PRIMARY", "KEY"):
                key_columns.add(name)
                constraints.append(constraint_name + self._keyed("PRIMARY KEY", name))
            elif self.take("UNIQUE"):
                head = "UNIQUE"
                if self.take("NULLS", "NOT", "DISTINCT"):
                    head = "UNIQUE NULLS NOT DISTINCT"
                else:
                    self.take("NULLS", "DISTINCT")
                constraints.append(constraint_name + self._keyed(head, name))
            elif self.take("CHECK"):
                self.group()
                self.constraint_attributes()
                constraints.append(constraint_name + self.text_since(start))
            elif self.at("REFERENCES"):
                self._references()
                foreign = f"FOREIGN KEY ({quote_identifier(name)}) {self.text_since(start)}"
                constraints.append(constraint_name + foreign)
            else:
                raise self.fail(f"',', ')' or a constraint of the column {name!r}")
        return ColumnDefinition(
            name=name,
            type_text=type_text,
            not_null=not_null,
            default_text=default_text,
            generated_text=generated_text,
            attributes_text=" ".join(attributes),
            line=line,
        )

    def _at_column_keyword(self) -> bool:
        token = self.peek()
        return token is not None and token.word in _COLUMN_KEYWORDS

    def _expression(self) -> str:
        """A default: at least one piece, so that DEFAULT NULL works, then up to the next keyword.

        That is where PostgreSQL's own grammar ends it, for a default is a b_expr, without NOT, IS NULL or
        COLLATE outside parentheses.
        """
        start = self.position
        if self.at(","):
            raise self.fail("a default")
        self.piece("a default")
        while not self.at_element_end() and not self._at_column_keyword():
            self.piece()
        return self.text_since(start)

    def _generated(self) -> None:
        if self.take("GENERATED") and not self.take("ALWAYS"):
            self.expect("BY")
            self.expect("DEFAULT")
        self.expect("AS")
        if self.take("IDENTITY"):
            if self.at("("):
                self.group()
            return
        self.group()
        self.take_one_of(("STORED", "VIRTUAL"))

    def _keyed(self, head: str, column_name: str) -> str:
        """`head ("column")` and the attributes that follow in the text."""
        start = self.position
        self.constraint_attributes()
        attributes = self.text_since(start)
        return f"{head} ({quote_identifier(column_name)})" + (f" {attributes}" if attributes else "")

    def _references(self) -> None:
        self.expect("REFERENCES")
        self.table_name()
        if self.at("("):
            self.group()
        while True:
            if self.take("MATCH"):
                self.piece()
            elif self.take("ON", "DELETE") or self.take("ON", "UPDATE"):
                if self.take("SET", "NULL") or self.take("SET", "DEFAULT"):
                    if self.at("("):
                        self.group()
                elif not (self.take("NO", "ACTION") or self.take_one_of(("RESTRICT", "CASCADE"))):
                    raise self.fail("an action such as CASCADE")
            else:
                break
        self.constraint_attributes()

    def constraint_attributes(self) -> None:
        """What may follow any constraint; which combinations make sense is for the target to say."""
        while True:
            if self.take("INCLUDE") or self.take("WITH"):
                self.group()
            elif self.take("USING", "INDEX", "TABLESPACE"):
                self.identifier("a tablespace")
            elif not (
                self.take("NOT", "DEFERRABLE")
                or self.take("DEFERRABLE")
                or self.take("INITIALLY", "DEFERRED")
                or self.take("INITIALLY", "IMMEDIATE")
                or self.take("NOT", "ENFORCED")
                or self.take("ENFORCED")
                or self.take("NOT", "VALID")
                or self.take("NO", "INHERIT")
            ):
                return


def _unsupported(name: TableName, reason: str, line: int) -> TableDefinition:
    return TableDefinition(
        name=name,
        columns=(),
        constraints=(),
        options_text="",
        unlogged=False,
        line=line,
        unsupported=reason,
    )
