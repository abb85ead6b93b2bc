"""One suite over every engine: the same files mean the same rows, NULLs and refusals everywhere.

Written from the contract (DESIGN.md, sections 3 to 5) and from PostgreSQL's documentation of COPY, not from
the implementation. A test takes the fixture `engine_target`, which stands for each engine in turn; tests of
what only a PostgreSQL server has take `postgres_target`.
"""
