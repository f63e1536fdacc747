"""Claim: no data file crashes, hangs or starves the process that reads it, nor raises an error that is not longtail's.

    python benchmarks/fuzz_data.py [--files 20000] [--seed 0] [--processes 1] [--only CASE]

Makes small data sets of every format that longtail reads, damages each by what it is made of (numbers, lines, JSON
values, headers, arrays, columns, archives, types of files), and reads them in child processes with a limit on memory
and time. Packed files are packed again after the damage, so that it is not the checksum that is wrong. Then reads
bombs: small files that declare or unpack to far more than they hold. Prints how many files were read, refused, and
broke the claim; exits with 1 where one did. --only repeats one case with its traceback.
"""

from __future__ import annotations

import json
import math
import os
import resource
import select
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from shared.command import parser_for

SECONDS = 120.0  # for one file; the machine may be busy
MEMORY = 200_000_000  # bytes that reading may take, and twice the size of the files
BOMB_MEMORY = 1_500_000_000  # for bombs: a header may declare four million labels, a line may have 64 MiB
ADDRESS_SPACE = 4 << 30  # what a child may take before the system refuses
REPEATS = 2000  # files a child reads before a new one takes over


def child(seed: int, cases: list[str]) -> None:
    """Reads the cases given, with one line on standard output before and after each."""
    from shared import data_files

    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    data_files.warm_up()
    for case in cases:
        print(json.dumps({"case": case}), flush=True)
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(one(seed, case, Path(folder))), flush=True)


def one(seed: int, case: str, folder: Path, *, debug: bool = False) -> dict[str, object]:
    """Makes and reads one case: what became of it, how long it took and how much memory."""
    from longtail.errors import LongtailError
    from shared import data_files

    name, read = data_files.make(seed, case, folder)
    size = sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    before, start = _fresh_peak(), time.process_time()
    outcome, problem = "read", ""
    try:
        read()
    except LongtailError as error:
        outcome = "refused"
        if len(str(error)) > 4000 or "\n" in str(error):
            problem = f"message of {len(str(error))} characters: {str(error)[:80]!r}"
        if debug:
            print(f"{type(error).__name__}: {error}")
    except Exception as error:
        outcome, problem = "foreign", f"{type(error).__name__}: {str(error)[:100]} {_place(error)}"
        if debug:
            traceback.print_exc()
    grown = _peak() - before
    bound = BOMB_MEMORY if case.startswith("bomb") else MEMORY + 2 * size
    if grown > bound:
        problem += f" took {grown / 1e6:.0f} MB for {size} bytes"
    seconds = time.process_time() - start
    return {"case": case, "name": name, "outcome": outcome, "problem": problem, "grown": grown, "seconds": seconds}


def _place(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "longtail" in frame.filename]
    return " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(ours[-3:]))


def _fresh_peak() -> int:
    """Forgets the peak so far; resident bytes now."""
    Path("/proc/self/clear_refs").write_text("5")
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _peak() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def run(seed: int, cases: list[str], until: float = math.inf) -> list[dict[str, object]]:
    """Reads all cases in child processes, one after the other; a child that dies or hangs costs only its case."""
    from shared import data_files

    results: list[dict[str, object]] = []
    while len(results) < len(cases) and time.monotonic() < until:
        part = cases[len(results) : len(results) + REPEATS]
        words = [sys.executable, __file__, "--seed", str(seed), "--child", json.dumps(part)]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)  # select sees all
        assert process.stdout is not None and process.stderr is not None
        done, began = 0, False
        while done < len(part):
            if time.monotonic() >= until:
                process.kill()
                break
            ready = select.select([process.stdout], [], [], SECONDS + (60 if not done else 0))[0]
            line = process.stdout.readline() if ready else b""
            entry = json.loads(line) if line else {}
            began = began or bool(line)
            if "outcome" in entry:
                results.append(entry)
                done += 1
            elif not line:
                process.kill()
                said = process.stderr.read().decode("utf-8", "replace").strip().splitlines()[-1:]
                if not began:
                    raise SystemExit(f"the child did not start: {said}")
                outcome = "crash" if ready else "timeout"
                problem = f"exit code {process.wait()} {said}" if ready else f"more than {SECONDS:g} s"
                told = {"case": part[done], "name": data_files.name_of(part[done]), "outcome": outcome}
                results.append({**told, "problem": problem, "grown": 0, "seconds": 0})
                break
        process.stdout.close()
        process.stderr.close()
        process.wait()
        if sys.stderr.isatty():
            print(f"\r{len(results):,} of {len(cases):,}", end="", file=sys.stderr)
    return results


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("--files", type=int, default=20_000, help="damaged data sets to read")
    parser.add_argument("--seed", type=int, default=0, help="of the damage")
    parser.add_argument("--processes", type=int, default=1, help="that share the files")
    parser.add_argument("--minutes", type=float, default=math.inf, help="after which no further file is read")
    parser.add_argument("--only", metavar="CASE", help="read one case, with its traceback")
    parser.add_argument("--no-bombs", action="store_true", help="leave the bombs out, which take a minute")
    parser.add_argument("--child", help="for the script itself")
    given = parser.parse_args()
    if given.child:
        child(given.seed, json.loads(given.child))
        return
    if given.only:
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
        with tempfile.TemporaryDirectory() as folder:
            print(one(given.seed, given.only, Path(folder), debug=True))
        return
    from shared import data_files

    cases = [f"{number}" for number in range(given.files)]
    cases += [] if given.no_bombs else [f"bomb-{name}" for name in data_files.BOMBS]
    start = time.perf_counter()
    until = time.monotonic() + 60 * given.minutes
    parts = [cases[part :: given.processes] for part in range(given.processes)]
    with ThreadPoolExecutor(given.processes) as pool:
        results = [one for part in pool.map(lambda some: run(given.seed, some, until), parts) for one in part]
    bad = [entry for entry in results if entry["problem"]]
    for kind in sorted({str(entry.get("name")) for entry in results}):
        told = Counter(str(entry["outcome"]) for entry in results if str(entry.get("name")) == kind)
        most = max(int(str(entry["grown"])) for entry in results if str(entry.get("name")) == kind)
        print(f"{kind:12} {dict(told)}, at most {most / 1e6:.0f} MB")
    for entry in bad[:40]:
        print(f"case {entry['case']} {entry.get('name')} {entry['outcome']}: {entry['problem']}")
    total = Counter(str(entry["outcome"]) for entry in results)
    slowest = max((float(str(entry["seconds"])) for entry in results), default=0.0)
    over = sum("took" in str(entry["problem"]) for entry in results)
    print(
        f"{len(results):,} files in {time.perf_counter() - start:.0f} s: {total['read']:,} read, {total['refused']:,} "
        f"refused, {total['crash']} crashes, {total['foreign']} foreign exceptions, {total['timeout']} timeouts, "
        f"{over} over the memory bound; slowest {slowest:.1f} s of CPU time"
    )
    raise SystemExit(bool(bad))


if __name__ == "__main__":
    main()
