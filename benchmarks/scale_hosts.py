"""Claim: torchrun over two hosts trains what one process trains, also when a host is cut off and comes back.

    sudo python benchmarks/scale_hosts.py [--recipes "renee(...)" "unidec(...)"] [--patience 6] [--epochs 8]

The hosts are two network namespaces with addresses and host names of their own, joined by a cable; `ip netns` needs
Linux and root. Each host starts its torchrun with one process (gloo, rendezvous at the first host). Each recipe trains
on one process, on two hosts, and on two hosts whose cable is taken away in the middle for twice the patience; a
torchrun that gave up is started again, as a service would. Prints seconds, who named the loss, and the largest
difference of the models' numbers from those of one process. Exit status 1: a job failed or a number differs by more
than 0.001.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

from shared.command import parser_for
from shared.tables import header, row

HOSTS = ("a", "b")
SMALL = "encoder='bag', dimension=16, batch_size=16, epochs={epochs}"
RECIPES = [f"renee({SMALL})", f"unidec({SMALL}, dropout=0.0, head_dropout=0.0)"]
WORDS = ("apple", "bridge", "castle", "dragon", "engine", "forest", "guitar")
PORT, LIMIT = 29_417, 600.0


def main() -> int:
    parser = parser_for(__doc__)
    parser.add_argument("--recipes", nargs="+", default=RECIPES, help="what is trained")
    parser.add_argument("--patience", type=float, default=6.0, help="seconds of silence after which a host is lost")
    parser.add_argument("--epochs", type=int, default=8, help="of the default recipes")
    options = parser.parse_args()
    faults = 0
    print(header(["recipe", "hosts", "s", "named", "starts", "largest difference"], words=1), flush=True)
    with tempfile.TemporaryDirectory() as place, Cable():
        folder = Path(place)
        data = write_data(folder / "data")
        for number, text in enumerate(options.recipes):
            recipe = text.format(epochs=options.epochs)
            alone = folder / f"{number}-one"
            begun = time.monotonic()
            subprocess.run(command(data, recipe, alone, options.patience), check=True, stdout=subprocess.DEVNULL)
            seconds = time.monotonic() - begun
            print(row([recipe.partition("(")[0], "one process", f"{seconds:.0f}", "", 1, ""]), flush=True)
            for cut in (False, True):
                job = Job(folder / f"{number}-{cut}", data, recipe, options.patience)
                begun = time.monotonic()
                if cut:
                    job.cut_off(2 * options.patience)
                job.finish()
                seconds = time.monotonic() - begun
                miss = difference(alone, job.out)
                faults += not miss <= 1e-3
                name = "two, one cut off" if cut else "two"
                cells = [f"{seconds:.0f}", job.named(), job.starts, f"{miss:.1e}"]
                print(row([recipe.partition("(")[0], name, *cells]), flush=True)
    print(f"{faults} faults")
    return int(faults > 0)


def command(data: Path, recipe: str, out: Path, patience: float) -> list[str]:
    more = ["--checkpoint-dir", f"{out}-run", "--patience", str(patience)]
    return [sys.executable, "-m", "longtail", "train", str(data), recipe, "--out", str(out), *more]


def write_data(folder: Path) -> Path:
    folder.mkdir()
    rows = [
        {"id": f"{word}{number}", "text": f"{word} {other} {number % 3}", "labels": [word]}
        for number in range(40)
        for word, other in zip(WORDS, WORDS[number % 7 :] + WORDS[: number % 7], strict=True)
    ]
    (folder / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (folder / "labels.jsonl").write_text("\n".join(json.dumps({"id": word, "text": word}) for word in WORDS))
    return folder


def difference(one: Path, other: Path) -> float:
    """The largest difference of two models' numbers."""
    from longtail.store import load

    ours, theirs = (load(folder).scorer.state().tensors for folder in (one, other))
    pairs = [(ours[name], theirs[name]) for name in ours if ours[name].dtype.kind == "f"]
    return max(float(np.abs(left - right).max(initial=0)) for left, right in pairs)


class Cable:
    """Two namespaces, and a cable between them."""

    def __enter__(self) -> Cable:
        self.__exit__()
        for host in HOSTS:
            ip("netns", "add", f"longtail-{host}")
        ip("link", "add", "lt-a", "netns", "longtail-a", "type", "veth", "peer", "name", "lt-b", "netns", "longtail-b")
        for number, host in enumerate(HOSTS, 1):
            ip("-n", f"longtail-{host}", "addr", "add", f"10.77.0.{number}/24", "dev", f"lt-{host}")
            for link in ("lo", f"lt-{host}"):
                ip("-n", f"longtail-{host}", "link", "set", link, "up")
        return self

    def __exit__(self, *_: object) -> None:
        for host in HOSTS:
            ip("netns", "delete", f"longtail-{host}", check=False)


def ip(*words: str, check: bool = True) -> None:
    subprocess.run(["ip", *words], check=check, stderr=None if check else subprocess.DEVNULL)


class Job:
    """One torchrun a host."""

    def __init__(self, out: Path, data: Path, recipe: str, patience: float) -> None:
        self.out, self.words, self.starts = out, command(data, recipe, out, patience)[1:], 0
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        for host in HOSTS:
            self.start(host)

    def start(self, host: str) -> None:
        self.starts += 1
        own = HOSTS.index(host) + 1
        rendezvous = ["--nnodes", "2", "--nproc-per-node", "1", "--rdzv-backend", "c10d", "--rdzv-id", self.out.name]
        rendezvous += ["--rdzv-endpoint", f"10.77.0.1:{PORT}", "--local-addr", f"10.77.0.{own}", "--max-restarts", "3"]
        rendezvous += ["--rdzv-conf", f"is_host={int(own == 1)}"]  # else torchrun asks for the hosts' names
        words = [sys.executable, "-m", "torch.distributed.run", *rendezvous, *self.words]
        environment = {**os.environ, "GLOO_SOCKET_IFNAME": f"lt-{host}", "OMP_NUM_THREADS": "1"}
        script = f'hostname host-{host}; exec "$@"'
        inside = ["ip", "netns", "exec", f"longtail-{host}", "unshare", "--uts", "sh", "-c", script, "sh", *words]
        with Path(f"{self.out}.{host}.log").open("ab") as log:  # the process keeps a copy of its own
            self.running[host] = subprocess.Popen(inside, env=environment, stdout=log, stderr=log)

    def log(self) -> str:
        return "".join(Path(f"{self.out}.{host}.log").read_text() for host in HOSTS)

    def cut_off(self, seconds: float) -> None:
        """Take the cable away once the first checkpoint is there, and put it back."""
        until = time.monotonic() + LIMIT
        while not list(Path(f"{self.out}-run").rglob("checkpoint.safetensors")) and time.monotonic() < until:
            time.sleep(0.02)
        ip("-n", "longtail-b", "link", "set", "lt-b", "down")
        time.sleep(seconds)
        ip("-n", "longtail-b", "link", "set", "lt-b", "up")

    def finish(self) -> None:
        until, again = time.monotonic() + LIMIT, dict.fromkeys(HOSTS, 0)
        while self.running and time.monotonic() < until:
            for host, process in list(self.running.items()):
                code = process.poll()
                if code == 0:
                    del self.running[host]
                elif code is not None and again[host] < 3:
                    again[host] += 1
                    self.start(host)  # as a service does
                elif code is not None:
                    until = 0.0
            time.sleep(0.1)
        for process in self.running.values():
            process.kill()
        if not self.out.exists():
            print(self.log(), file=sys.stderr)
            raise SystemExit(f"{self.out.name}: no model was written")

    def named(self) -> str:
        lines = [line for line in self.log().splitlines() if line.startswith("error: ")]
        return " / ".join(dict.fromkeys(line[7:90] for line in lines)) or "-"


if __name__ == "__main__":
    sys.exit(main())
