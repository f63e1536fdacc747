"""`longtail export`: writes a model in a form that other programs read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from longtail.cli.shared import progress, ready_to_write

FORMS = ("numpy", "sentence-transformers", "onnx")


def export(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model folder that train wrote.")],
    to: Annotated[str, typer.Option("--to", metavar="FORM", help=f"{FORMS[0]}, {FORMS[1]} or {FORMS[2]}.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="Folder to write.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an export that is there.")] = False,
) -> None:
    """Export a model for other programs.

    numpy: label vectors and ids for any vector database. sentence-transformers: a folder that SentenceTransformer
    loads, and the label vectors. onnx: the encoder and, up to 100,000 labels, the classifiers as a graph. The model
    needs an encoder and a vector for each label, as dpr, ngame and renee have; re-rankers are not exported.
    """
    from importlib import import_module

    from longtail.cli.shared import say
    from longtail.errors import DataError, ModelError, did_you_mean, what_to_do
    from longtail.memory import readable
    from longtail.store import load

    if to not in FORMS:
        raise DataError(f"--to takes {', '.join(FORMS[:-1])} or {FORMS[-1]}, got {to!r}{did_you_mean(to, FORMS)}")
    ready_to_write(out, folder=True)
    with progress():
        loaded = load(model)
        writer = import_module(f"longtail.export.{to.replace('-', '_')}")
        try:
            writer.export(loaded, out, overwrite=overwrite)
        except OSError as error:
            raise ModelError(f"{out}: cannot be written ({error.strerror or error}); {what_to_do(error)}") from None
    if loaded.rerankers:
        say(f"note: {', '.join(part.kind for part in loaded.rerankers)} is not exported")
    size = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
    typer.echo(f"wrote {out} ({readable(size)})")
