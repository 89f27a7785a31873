"""Compile requests: only pages that this server has sent are answered.

In: a request's headers and body. Out: a status and JSON. Other sites' pages have neither the token nor our
origin; checking the host prevents DNS rebinding.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from tilewise.site.play.compiling import Compiler

TOKEN_HEADER = "X-Tilewise-Token"
MOST_BYTES = 512 * 1024
"""Size of a request; a text of 200,000 letters fits."""
MOST_LETTERS = 200_000
_DEFINES = 32


def is_loopback(address: str) -> bool:
    """Return whether an address of a server or a client is this machine's own."""
    try:
        return (
            address == "localhost" or ipaddress.ip_address(address.strip("[]").partition("%")[0]).is_loopback
        )
    except ValueError:
        return False


class CompileRequests:
    """Answers requests.

    Args:
        compiler: compiles.
        port: the server's.
    """

    def __init__(self, compiler: Compiler, port: int) -> None:
        self._compiler = compiler
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}
        self.token = secrets.token_urlsafe(24)

    def is_own_host(self, host: str) -> bool:
        """Return whether a ``Host`` header names this server."""
        return host.lower() in self._hosts

    def refusal(self, method: str, headers: Mapping[str, str], client: str) -> tuple[int, str] | None:
        """Return why a request is refused, before its body is read; None if it is accepted.

        Args:
            method: the HTTP method.
            headers: the request's, by lower-case name.
            client: the client's address.
        """
        host = headers.get("host", "")
        length = headers.get("content-length", "")
        if method != "POST":
            return 405, "Only POST is answered here."
        if not is_loopback(client) or not self.is_own_host(host):
            return 403, "Only pages of this machine are answered."
        if headers.get("origin", "").lower() != f"http://{host.lower()}":
            return 403, "Only this server's own pages are answered."
        if not hmac.compare_digest(headers.get(TOKEN_HEADER.lower(), "").encode(), self.token.encode()):
            return 403, "This page is of an earlier start of the server. Reload it."
        if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            return 415, "The text must come as application/json."
        if not length.isdecimal():
            return 411, "The request does not say how long it is."
        if int(length) > MOST_BYTES:
            return 413, f"The text is too long: at most {MOST_LETTERS:,} letters are compiled."
        return None

    def answer(
        self, method: str, headers: Mapping[str, str], client: str, read: Callable[[int], bytes]
    ) -> tuple[int, bytes]:
        """Return a status and JSON: the result of ``kernel/pasted.py``, or a sentence in ``refused``.

        Args:
            method: as for ``refusal``.
            headers: as for ``refusal``.
            client: as for ``refusal``.
            read: reads a number of bytes of the body.
        """
        if (refusal := self.refusal(method, headers, client)) is not None:
            return _refused(*refusal)
        try:
            request = _checked(json.loads(read(int(headers["content-length"]))))
        except (ValueError, RecursionError) as error:
            return _refused(400, str(error) if type(error) is ValueError else "The request is not JSON.")
        result = self._compiler.compile(request)
        if result is None:
            return _refused(503, "Another text is being compiled. Try again.")
        return 200, json.dumps(result, separators=(",", ":")).encode()


def _checked(request: Any) -> dict[str, Any]:
    """The known fields of a request.

    Raises:
        ValueError: one has the wrong type.
    """
    if not isinstance(request, dict) or not isinstance(request.get("text"), str):
        raise ValueError("The request has no text.")
    text, kernel = request["text"], request.get("kernel")
    if len(text) > MOST_LETTERS:
        raise ValueError(f"The text is too long: at most {MOST_LETTERS:,} letters are compiled.")
    if "\0" in text or any(0xD800 <= ord(letter) < 0xE000 for letter in text):
        raise ValueError("The text contains NUL or a lone surrogate.")
    defines, options = request.get("defines") or {}, request.get("options") or []
    if not isinstance(defines, dict) or len(defines) > _DEFINES:
        raise ValueError("The macros are no object of names and values.")
    if not all(
        name.isidentifier() and isinstance(value, int | float | str) for name, value in defines.items()
    ):
        raise ValueError("A macro has no name, or no value.")
    if not isinstance(options, list) or not all(isinstance(option, str) for option in options):
        raise ValueError("The options are no list of words.")
    if kernel is not None and not isinstance(kernel, str):
        raise ValueError("The kernel's name is no text.")
    return {"text": text.replace("\r\n", "\n"), "kernel": kernel, "defines": defines, "options": options}


def _refused(status: int, sentence: str) -> tuple[int, bytes]:
    return status, json.dumps({"refused": sentence}).encode()
