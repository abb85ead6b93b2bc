"""Real database servers for the tests, and ways to break the connection to them.

- `installations`: which PostgreSQL versions this machine has, and the user that runs them;
- `postgres`: one running server, which can be stopped, crashed and restarted;
- `proxy`: a TCP proxy between Tipple and a server that cuts, stalls or loses what it is told to.
"""
