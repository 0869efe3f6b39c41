"""Measured runs: the record's schema, JSON-lines files of records, and every file format that measurements come in."""

from .measurements import Measurements, read_measurements
from .schema import Record
from .store import append_record, read_records

__all__ = ["Measurements", "Record", "append_record", "read_measurements", "read_records"]
