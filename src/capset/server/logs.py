"""The log of the server: one JSON object a line on stderr, the lines of every library among them."""

from __future__ import annotations

import logging
import sys
from typing import Any, Final

import structlog
from pydantic_core import to_json

_SHARED: Final[list[Any]] = [  # structlog's processors
    structlog.processors.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
]


def configure(*, level: int = logging.INFO) -> None:
    """Send structlog's and the standard library's lines to stderr, each as one JSON object.

    Tracebacks show no values of variables: keys and arguments could be among them.
    """
    structlog.configure(
        processors=[*_SHARED, structlog.processors.format_exc_info, structlog.processors.JSONRenderer(_dumped)],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=_named,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *_SHARED],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                structlog.processors.JSONRenderer(_dumped),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("capset").setLevel(level)
    for name in ("uvicorn", "uvicorn.error", "mcp"):
        logging.getLogger(name).setLevel(logging.WARNING)


def _named(*_: object) -> structlog.PrintLogger:
    return structlog.PrintLogger(sys.stderr)


def _dumped(line: Any, **_: object) -> str:
    return to_json(line, fallback=repr, inf_nan_mode="strings").decode()
