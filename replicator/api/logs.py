"""REST for a worker's log level: for this worker only, until it ends."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import ConfigDict

from replicator.api import answers
from replicator.api.envelope import answer
from replicator.api.field_meanings import Described
from replicator.api.responses import enveloped
from replicator.observe.level import Level
from replicator.observe.logging import get_level, get_logger, set_level

__all__ = ["log_routes"]

log = get_logger(__name__)


class LogLevelRequest(Described):
    model_config = ConfigDict(extra="forbid")

    level: Level


def log_routes() -> APIRouter:
    """/log/level."""
    routes = APIRouter(tags=["worker"], prefix="/log")

    @routes.get("/level", **enveloped(answers.LogLevel))
    async def get_log_level() -> JSONResponse:
        """The log level of this worker."""
        return answer({"level": get_level()})

    @routes.put("/level", **enveloped(answers.LogLevel, 400))
    async def set_log_level(wanted: LogLevelRequest) -> JSONResponse:
        """Changes the log level of this worker, until it ends."""
        before = get_level()
        set_level(wanted.level)
        log.warning("log level changed", before=before, level=wanted.level)
        return answer({"level": wanted.level})

    return routes
