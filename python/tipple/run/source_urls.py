"""URLs where sources are named: none is read, and each kind has another way in."""

from __future__ import annotations

import re
import shlex
from urllib.parse import unquote

from tipple.errors import UsageError
from tipple.plan.url import ENGINE_BY_SCHEME

__all__ = ["refused_url"]

_URL = re.compile(r"([a-z][a-z0-9+.-]*)://(.*)", re.IGNORECASE | re.DOTALL)
_BY_CURL = ("curl -fsSL {}", "curl -fsSLO {}")
_FETCHED = {
    **dict.fromkeys(("http", "https", "ftp", "ftps"), _BY_CURL),
    "s3": ("aws s3 cp {} -", "aws s3 cp {} ."),
    "gs": ("gcloud storage cat {}", "gcloud storage cp {} ."),
}
"""By scheme what writes such a source to standard output, and what writes it into a file."""
_COLUMNAR = re.compile(r"\.(parquet|arrow|feather|ipc)(\?|$)", re.IGNORECASE)
"""Endings of files that are not read from beginning to end, and so not from standard input."""
_SECRETS = re.compile(r"[^/?]*@|[^?]*\?.*(password|secret|token|key|sig|credential)", re.IGNORECASE)
"""What follows the scheme of a URL that may let somebody in."""


def refused_url(name: str) -> UsageError | None:
    """What to say of a source that is no file but looks like a URL; None where it does not."""
    found = _URL.fullmatch(name)
    if found is None:
        return None
    scheme, rest = found[1].lower(), found[2]
    if scheme in ENGINE_BY_SCHEME:
        # It may hold a password.
        return UsageError(f"{scheme}://… is a target, and stands where a source is named", hint="say --into before it")
    if scheme == "file":
        path = unquote(rest.removeprefix("localhost"))
        return UsageError(f"{name} is a URL, and URLs are not read", hint=f"name the file itself: {shlex.quote(path)}")
    is_secret = _SECRETS.match(rest) is not None
    shown = f"{scheme}://…" if is_secret else name
    url = "URL" if is_secret else shlex.quote(name)
    piped, stored = _FETCHED.get(scheme, ("", ""))
    if not piped:
        hint = "fetch it into a file first"
    elif _COLUMNAR.search(rest):
        hint = f"fetch it into a file first ({stored.format(url)}), and load that"
    else:
        hint = f"{piped.format(url)} | tipple load - … reads it from standard input"
    return UsageError(f"{shown} is a URL, and URLs are not read", hint=hint)
