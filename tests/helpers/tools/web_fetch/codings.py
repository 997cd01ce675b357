"""Bodies in each content coding."""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Callable
from importlib import import_module

brotli = import_module("brotli")
zstd = import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")

CODINGS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstd.compress,
}
