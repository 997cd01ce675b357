"""The log of the server: one JSON object per line on stderr, including the lines of every library."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import MutableMapping
from typing import Any, Final

import structlog
from pydantic_core import PydanticSerializationError, to_json

from capset_server.observability.log_writer import LogWriter, line_head


def _traced(_: object, method: str, line: dict[str, Any]) -> dict[str, Any]:  # plain data
    """Add the ids of the current span, if calls are traced."""
    if (trace := sys.modules.get("opentelemetry.trace")) is not None:
        context = trace.get_current_span().get_span_context()
        if context.is_valid:
            line |= {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}
    return line


_SHARED: Final[list[Any]] = [  # structlog's processors
    _traced,
    structlog.processors.add_log_level,
]


def _headed(_: object, method: str, line: MutableMapping[str, Any]) -> dict[str, Any]:  # plain data
    """Put the members with which every line begins first."""
    return {**line_head(line.pop("event"), level=line.pop("level"), logger=line.pop("logger")), **line}


def configure(log: LogWriter, *, level: int = logging.INFO) -> None:
    """Send every logger's lines to the log, each as one JSON object.

    Tracebacks show no values of variables, which could include keys and arguments.
    """
    handler = _Lines(log)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *_SHARED],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                _headed,
                structlog.processors.JSONRenderer(_text),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("capset").setLevel(level)
    logging.captureWarnings(True)
    for name in ("uvicorn", "uvicorn.error", "mcp"):
        logging.getLogger(name).setLevel(logging.WARNING)


class _Lines(logging.Handler):
    """A handler that never blocks the code that logs."""

    def __init__(self, log: LogWriter) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._log.put([self.format(record).encode()])
        except Exception:
            self.handleError(record)

    def flush(self) -> None:
        self._log.drain()


def _text(line: Any, **_: object) -> str:
    try:
        return to_json(line, fallback=repr, inf_nan_mode="strings").decode()
    except PydanticSerializationError:  # a lone surrogate, such as in a file name that is not UTF-8
        return json.dumps(line, default=repr)
