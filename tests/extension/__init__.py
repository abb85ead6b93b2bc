"""The server extension tipple_direct from outside: real servers, pages that the servers themselves have made.

- `pages`: tables of every type on the white list, their pages as a client would send them, and loads;
- `test_append`: what was appended is what COPY would have loaded;
- `test_durability`: crashes, standbys, rollbacks, checksums;
- `test_refusals`: what cannot be loaded, who may not load, and sessions that break off;
- `test_hostile`: pages that no server would have written;
- `test_build`: the extension's own tests, and its parts without a server.
"""
