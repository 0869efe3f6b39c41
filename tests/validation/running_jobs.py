"""Jobs whose records are really written, and a campaign of them as a program that can be killed."""

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from perfmodel.records.own_records import append_record
from perfmodel.records.schema import Environment, Failure, Record, RecordKind, RunKey, run_key
from perfmodel.validation.running import recorded_keys, run_missing
from perfmodel.validation.worker import Reply

ENVIRONMENT = Environment(
    gpu_name="", compute_capability="", driver_version="", cuda_version="", compiler_version="", commit=""
)


@dataclass(frozen=True, slots=True)
class NumberedJob:
    number: int
    behaviour: str = "work"

    @property
    def key(self) -> RunKey:
        return run_key(RecordKind.KERNEL, "numbered", {}, {"number": self.number})

    def failed(self, failure: Failure) -> Record:
        return numbered_record(self, failure)


def numbered_record(job: NumberedJob, failure: Failure | None = None) -> Record:
    return Record(
        kind=RecordKind.KERNEL,
        name="numbered",
        problem={},
        configuration={"number": job.number},
        gpu="",
        environment=ENVIRONMENT,
        measured_at=str(os.getpid()),
        failure=failure,
    )


def work(job: NumberedJob) -> Reply[Record]:
    if job.behaviour == "die":
        os.abort()
    if job.behaviour == "hang":
        time.sleep(3600)
    time.sleep(0.01)
    return Reply(result=numbered_record(job))


def main(path: Path, count: int) -> None:
    jobs = [NumberedJob(number) for number in range(count)]

    def keep(record: Record) -> None:
        append_record(path, record)
        print(record.configuration["number"], flush=True)

    run_missing(jobs, work, keep, done=recorded_keys(path), time_limit_s=60.0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
