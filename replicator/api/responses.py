"""How handlers describe their answers in OpenAPI: the body of a success, and the statuses of errors."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final, cast

from replicator.api.answers import Envelope, Errors

__all__ = ["Responses", "enveloped", "errors"]

_MEANINGS: Final[dict[int, str]] = {
    400: "The body or a parameter is not valid, or a configuration cannot be used: one error for each mistake.",
    401: "The token is missing or wrong.",
    403: "The token is of a role that may not do this, or a web page of another site sent the request.",
    404: "There is no such connector, task, plugin, queue or message.",
    409: "A rebalance is under way (then with `Retry-After`), or the state of the connector or worker forbids it.",
    503: "A cluster does not answer, or a change was not published or carried out in time; with `Retry-After`.",
    504: "What was asked for was begun, and had not ended in time: it may still be at work.",
}
#: What every path may answer. FastAPI also leaves out its own 422 then, which no path gives.
_ANYWHERE: Final = (
    "403: a name that is not this machine's, or another site's page. 405: the path has no such method. "
    "408: the body did not come in time. 413: it is over 1 MiB, or has no Content-Length. 415: it is not "
    "`application/json`. "
    "500: an unexpected error; see the worker's log."
)

#: What a path that requires a token may answer.
_GUARDED: Final = (HTTPStatus.UNAUTHORIZED.value, HTTPStatus.FORBIDDEN.value)

#: FastAPI's `responses`, by status.
Responses = dict[int | str, dict[str, Any]]


def errors(*statuses: int, token: bool = True) -> Responses:
    """The errors of a path, for FastAPI's `responses`.

    Args:
        statuses: those that its handler gives.
        token: whether the path requires the token, if one is set.
    """
    described: Responses = {
        status: {"model": Envelope[Errors], "description": _MEANINGS[status]}
        for status in sorted({*statuses, *(_GUARDED if token else ())})
    }
    return described | {"default": {"model": Envelope[Errors], "description": _ANYWHERE}}


def enveloped(body: Any, *statuses: int) -> dict[str, Any]:
    """Arguments of a route that answers with a `body` in the envelope, or with errors of these `statuses`."""
    return {"response_model": cast("Any", Envelope)[body], "responses": errors(*statuses)}
