"""A real PostgreSQL for the tests, which start it themselves.

They run where Debian's postgresql is installed with pgvector (postgresql-NN-pgvector from Debian 13 on), or against a
server with the extension that LONGTAIL_TEST_DATABASE names; else they are skipped and say why. A server without the
extension tests what is said then.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

GIVEN = os.environ.get("LONGTAIL_TEST_DATABASE")


def binaries() -> Path | None:
    """Where initdb and postgres are: the newest of Debian's."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[4]))
    return found[-1].parent if found else None


def user() -> str | None:
    """PostgreSQL refuses to run as root."""
    if os.getuid() != 0:
        return None
    return next(name for name in ("postgres", "nobody") if name in {entry.pw_name for entry in pwd.getpwall()})


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of a server: the one that was given, or a new one on a socket of its own."""
    import psycopg

    if GIVEN:
        yield GIVEN
        return
    programs = binaries()
    if programs is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    place = Path(tempfile.mkdtemp(prefix="longtail-pg-"))
    who = user()
    if who is not None:
        shutil.chown(place, who)
    place.chmod(0o700)
    log = (place.parent / f"{place.name}.log").open("wb")
    process = None
    try:
        run = {"stdout": log, "stderr": log, "cwd": place, "user": who}
        data = place / "data"
        make = [programs / "initdb", "-D", data, "-U", "longtail", "--auth=trust", "-E", "UTF8", "--no-sync"]
        subprocess.run(make, check=True, **run)  # type: ignore[call-overload]
        serve = [programs / "postgres", "-D", data, "-k", place, "-c", "listen_addresses=", "-c", "fsync=off"]
        process = subprocess.Popen(serve, **run)  # type: ignore[call-overload]
        address = f"postgresql:///postgres?host={place}&user=longtail"
        for _ in range(200):
            try:
                psycopg.connect(address).close()
                break
            except psycopg.OperationalError:
                time.sleep(0.1)
        yield address
    finally:
        if process is not None:
            process.terminate()
            process.wait(timeout=30)
        log.close()
        Path(log.name).unlink()
        shutil.rmtree(place, ignore_errors=True)


def has_vector(address: str) -> bool:
    import psycopg

    with psycopg.connect(address) as connection:
        return connection.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'").fetchone() is not None
