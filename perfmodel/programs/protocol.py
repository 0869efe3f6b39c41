"""What a program and the simulator say to each other: requests with their fields, and answers, over a socket.

A request is its number and the length of its fields, both 64 bits; an answer the length of its fields. `runtime/connection.hpp`
has the same numbers and orders of fields.
"""

from __future__ import annotations

import socket
import struct
from enum import IntEnum
from typing import Any

_HEAD = struct.Struct("<QQ")
_LENGTH = struct.Struct("<Q")


class Request(IntEnum):
    """What a program asks for."""

    DEVICE = 1
    LOAD = 2
    PLACE = 3
    KERNEL = 4
    LAUNCH = 5
    OCCUPANCY = 6
    ALLOCATED = 7
    FREED = 8
    MISSING = 9
    OBJECT = 10


class CudaError(IntEnum):
    """Values of ``cudaError_t`` that answers hold."""

    SUCCESS = 0
    INVALID_VALUE = 1
    INVALID_CONFIGURATION = 9
    INVALID_DEVICE_FUNCTION = 98
    NO_IMAGE_FOR_DEVICE = 209
    ILLEGAL_ADDRESS = 700
    LAUNCH_OUT_OF_RESOURCES = 701
    ASSERT = 710
    MISALIGNED_ADDRESS = 716
    LAUNCH_FAILURE = 719
    COOPERATIVE_LAUNCH_TOO_LARGE = 720
    NOT_SUPPORTED = 801
    INVALID_CLUSTER_SIZE = 912


class Fields:
    """The fields of a request, taken from its bytes one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, form: str) -> tuple[Any, ...]:
        """Numbers by their `struct` characters."""
        values = struct.unpack_from(f"<{form}", self._data, self._at)
        self._at += struct.calcsize(f"<{form}")
        return values

    def text(self) -> str:
        """A text with its length in front."""
        (length,) = self.take("I")
        value = self._data[self._at : self._at + length].decode(errors="replace")
        self._at += length
        return value

    def rest(self) -> bytes:
        """All that is left."""
        return self._data[self._at :]


def packed_text(text: str) -> bytes:
    """A text with its length in front."""
    data = text.encode()
    return struct.pack("<I", len(data)) + data


def receive(connection: socket.socket) -> tuple[Request, Fields] | None:
    """The next request; None where the program has ended."""
    head = _exactly(connection, _HEAD.size)
    if head is None:
        return None
    number, length = _HEAD.unpack(head)
    data = _exactly(connection, length)
    return None if data is None else (Request(number), Fields(data))


def answer(connection: socket.socket, fields: bytes) -> None:
    """Send an answer; a program that has ended meanwhile does not get it."""
    try:
        connection.sendall(_LENGTH.pack(len(fields)) + fields)
    except (BrokenPipeError, ConnectionResetError):
        return


def _exactly(connection: socket.socket, length: int) -> bytes | None:
    parts = []
    while length:
        try:
            part = connection.recv(min(length, 2**20))
        except ConnectionResetError:
            return None
        if not part:
            return None
        parts.append(part)
        length -= len(part)
    return b"".join(parts)
