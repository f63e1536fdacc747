"""A folder of jobs: what each does, which file it writes, and why one failed.

jobs.json           format, version of longtail, kind, settings that all jobs share, and each job's input and output
failed/17.json      why job 17 failed; it goes when the job is run again
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from longtail.atomic import new_own_file
from longtail.errors import JobError, LongtailError
from longtail.read_back import reading_back
from longtail.version import __version__

FORMAT = 1
JOBS = "jobs.json"
KINDS = {  # the function that runs a job of each kind: (settings, input, output) -> rows done
    "predict": "longtail.batch_prediction:predict_shard",
    "words": "longtail.linear.features.word_count_jobs:count_shard",
    "classifiers": "longtail.linear.trees.tree_jobs:train_part",
    "nets": "longtail.learners.mach:train_net",
    "fold": "longtail.fold_training:train_fold",
    "comparison": "longtail.comparison.line_jobs:train_line",
    "trial": "longtail.tuning.trial_jobs:judge_trial",
}


class JobFunction(Protocol):
    """What a kind of job does. It writes `output` whole or not at all, the same bytes whoever runs it."""

    def __call__(self, settings: Mapping[str, Any], source: Any, output: Path) -> int:
        """Do one job and return how many rows or classifiers it made."""


@dataclass(frozen=True)
class Failed:
    """A job that failed, and why."""

    number: int
    output: Path
    reason: str


@dataclass(frozen=True)
class JobFolder:
    """Jobs that write one file each."""

    path: Path
    kind: str
    settings: Mapping[str, Any]
    sources: tuple[Any, ...]  # JSON: what each job reads
    outputs: tuple[Path, ...]  # the file that each job writes
    version: str = __version__

    def __len__(self) -> int:
        return len(self.sources)

    @classmethod
    def write(
        cls, path: Path, kind: str, settings: Mapping[str, Any], sources: Sequence[Any], outputs: Sequence[Path]
    ) -> JobFolder:
        """Write a folder of jobs, or take up the one that is there, if it is of the same work.

        Args:
            path: the folder.
            kind: what the jobs do, a key of KINDS.
            settings: of all jobs, as JSON values.
            sources: what each job reads.
            outputs: the file that each job writes.

        Returns:
            The jobs.

        Raises:
            JobError: the folder holds other work; what it wrote would be taken for this.
        """
        made = cls(path.resolve(), kind, dict(settings), tuple(sources), tuple(one.resolve() for one in outputs))
        if (path / JOBS).exists():
            there = cls.read(path)
            if (there.kind, there.settings, there.version) != (made.kind, made.settings, made.version):
                raise JobError(
                    f"{path}: holds jobs with other settings ({_difference(there, made)}), and their results would be "
                    "mixed with these; give another folder, or remove this one"
                )
            read = dict(zip(there.outputs, there.sources, strict=True))
            for output, source in zip(made.outputs, made.sources, strict=True):
                if output.exists() and read.get(output, source) != source:
                    raise JobError(f"{output}: its input has changed since it was written; remove it and run again")
        with new_own_file(path / JOBS) as file:
            json.dump(
                {
                    "format": FORMAT,
                    "longtail": made.version,
                    "kind": kind,
                    "settings": made.settings,
                    "jobs": [
                        {"input": source, "output": str(output)}
                        for source, output in zip(made.sources, made.outputs, strict=True)
                    ],
                },
                file,
                indent=1,
            )
        return made

    @classmethod
    def read(cls, path: Path) -> JobFolder:
        """Read what `write` wrote.

        Args:
            path: the folder.

        Returns:
            The jobs.

        Raises:
            JobError: there are no jobs here, or they are not to be understood.
        """
        file = path / JOBS
        if not file.exists():
            raise JobError(f"{path}: holds no {JOBS}; --on files writes one, and `longtail job` takes its folder")
        with reading_back(file, "write the jobs again with --on", JobError):
            found = json.loads(file.read_text(encoding="utf-8"))
            if found["format"] != FORMAT or found["kind"] not in KINDS:
                raise JobError(f"{file}: written by another release of longtail; write the jobs again")
            jobs = found["jobs"]
            return cls(
                path.resolve(),
                found["kind"],
                dict(found["settings"]),
                tuple(job["input"] for job in jobs),
                tuple(Path(job["output"]) for job in jobs),
                str(found["longtail"]),
            )

    @classmethod
    def find(cls, path: Path) -> JobFolder:
        """Read the jobs of a folder that `--on files` named, or of the folder around it.

        Args:
            path: a folder of jobs, or one that holds folders of jobs, such as that of a training or of answers.

        Returns:
            The jobs; of several folders the one with jobs left, and where none is left, the last that was written.

        Raises:
            JobError: there are no jobs here, or several folders have jobs left.
        """
        if (path / JOBS).exists() or not path.is_dir():
            beside = path.with_name(f"{path.name}.jobs")
            if not (path / JOBS).exists() and beside.is_dir():
                return cls.find(beside)
            return cls.read(path)
        inside = sorted(path.rglob(JOBS), key=lambda file: file.stat().st_mtime)
        if not inside:
            raise JobError(
                f"{path}: holds no {JOBS}, nor does a folder in it; give the folder in a line that --on files printed, "
                "or the one around it"
            )
        found = [cls.read(file.parent) for file in inside]
        waiting = [one for one in found if one.left()]
        if len(waiting) > 1:
            names = ", ".join(str(one.path) for one in waiting[:5])
            raise JobError(f"{path}: {len(waiting)} folders in it have jobs left; give one of them: {names}")
        return waiting[0] if waiting else found[-1]

    def check_version(self) -> None:
        """Refuse to run jobs of another release.

        Raises:
            JobError: the jobs were written by another version of longtail.
        """
        if self.version != __version__:
            raise JobError(
                f"{self.path}: the jobs were written by longtail {self.version}, and longtail {__version__} would run "
                "them; results of two versions are not mixed: install the same version everywhere"
            )

    def left(self) -> list[int]:
        """Find the jobs whose file is not there.

        Returns:
            Their numbers.
        """
        return [number for number, output in enumerate(self.outputs) if not output.exists()]

    def run(self, number: int) -> int:
        """Run one job, unless its file is there.

        Args:
            number: of the job, from 0.

        Returns:
            How many rows or classifiers it made; 0 where it was done before.

        Raises:
            JobError: there is no such job, it is of another version of longtail, or it failed.
        """
        if not 0 <= number < len(self):
            raise JobError(f"{self.path}: there is no job {number}; the jobs are 0 to {len(self) - 1}")
        self.check_version()
        output, failure = self.outputs[number], self.path / "failed" / f"{number}.json"
        if output.exists():
            return 0
        failure.unlink(missing_ok=True)
        module, _, name = KINDS[self.kind].partition(":")
        work: JobFunction = getattr(import_module(module), name)
        try:
            return work(self.settings, self.sources[number], output)
        except (LongtailError, OSError, MemoryError) as error:
            reason = str(error) or type(error).__name__
            with suppress(OSError), new_own_file(failure) as file:  # a full disk holds no reason either
                json.dump({"job": number, "output": str(output), "error": reason}, file)
            raise JobError(f"job {number} ({output.name}) failed: {reason}") from None


def _difference(there: JobFolder, made: JobFolder) -> str:
    if there.version != made.version:
        return f"longtail {there.version} there, {made.version} here"
    names = [name for name in made.settings if there.settings.get(name) != made.settings[name]]
    shown = [f"{name}: {there.settings.get(name)!s:.60} there, {made.settings[name]!s:.60} here" for name in names]
    return "; ".join(shown) or f"{there.kind} there, {made.kind} here"
