"""Files in gzip's format, within a limit: a small one may hold more than fits into memory."""

from __future__ import annotations

import zlib

from .limits import MOST_UNPACKED_BYTES


class PackingError(ValueError):
    """Bytes that cannot be unpacked; the text says why."""


def unpacked(raw: bytes) -> bytes:
    """Return what bytes in gzip's format hold.

    Raises
    ------
    PackingError
        If they are damaged, or hold too much.
    """
    reader = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        found = reader.decompress(raw, MOST_UNPACKED_BYTES)
    except zlib.error:
        raise PackingError("is not in gzip's format, or damaged") from None
    if reader.unconsumed_tail:
        raise PackingError(f"holds more than {MOST_UNPACKED_BYTES:,} bytes; unpack it")
    if not reader.eof or reader.unused_data:
        raise PackingError("is cut short, or holds more than one file; unpack it")
    return found
