"""A small model of every kind that is saved, and of every kind of encoder inside one."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

WORDS = ("apple", "bridge", "castle", "dragon", "engine", "forest", "guitar", "harbour", "island", "jungle")
TEXTS = ("an apple", "bridge and castle", "", "words nobody has seen", "dragon engine", "the forest of a guitar")
TEXTS += ("harbour", "island jungle apple", "\ud800 castle", "of the and", "apple bridge castle dragon", "a jungle")
NET = "dimension=8, batch_size=64, epochs=1"
CONVOLUTIONS = "dimension=64, channels=4, max_words=4, label_cluster_size=2, batch_size=64, epochs=1"
DPR = f"dpr(encoder='bag', {NET})"
MEMORY = f"memory({json.dumps(DPR)}, neighbours=3)"
RECIPES = {
    "bm25": "bm25",
    "centroid": "centroid(bigrams=true)",
    "hashed": "centroid(hash_bits=6)",
    "knn": "knn(neighbours=5)",
    "fastxml": "fastxml(trees=3, max_leaf_rows=4)",
    "pfastrexml": "pfastrexml(trees=2, max_leaf_rows=4)",
    "parabel": "parabel(max_leaf_labels=3, branches=2, trees=2)",
    "bonsai": "bonsai(branches=3, trees=2)",
    "dismec": "dismec",
    "proxml": "proxml",
    "xreg": "xreg(max_leaf_labels=3, branches=2, trees=2)",
    "rerank": "bm25 + rerank",
    "nearness": "bm25 + centroid",
    "isotonic": "knn(neighbours=5) + calibrate",
    "platt": "bm25 + calibrate(curve='platt')",
    "ranknet": "knn(neighbours=5) + ranknet(epochs=1, bottleneck=4)",
    "taug": "parabel(max_leaf_labels=3, trees=1) + taug(head_share=0.3, copies=1) + rerank",
    "taug twice": "knn(neighbours=5) + taug(head_share=0.5, copies=1) + taug(head_share=0.5, copies=1)",
    "ensemble": f'knn(neighbours=5) + ensemble(tail_model="{DPR}", tail_max_count=60)',
    "dual": f"ngame(encoder='bag', {NET}, classifier_epochs=1)",
    "dual cut": f"dpr(encoder='bag', {NET}, search_dimension=4, search='approximate')",
    "dual gru": f"dpr(encoder='gru', {NET})",
    "dual transformer": f"dpr(encoder='tiny', {NET})",
    "siamesexml": f"siamesexml({NET}, classifier_epochs=1)",
    "onevsall": f"renee(encoder='bag', {NET})",
    "buckets": f"mach(encoder='bag', {NET}, repetitions=3, buckets=4)",
    "astec": f"astec({NET})",
    "levels": f"cascadexml(encoder='bag', {NET}, max_leaf_labels=2, branches=2)",
    "layers": "lightxml(encoder='tiny', batch_size=64, epochs=1, max_leaf_labels=2, hidden=4)",
    "graph": f"elias(encoder='bag', {NET}, cluster_epochs=1, max_leaf_labels=2)",
    "attention": f"attentionxml(encoder='bag', {NET}, hidden=4, max_flat_labels=1, max_leaf_labels=2)",
    "resolutions": f"xrtransformer(encoder='bag', {NET}, max_leaf_labels=4, branches=2)",
    "sparse ranker": "bm25 + sparserank(candidates=3, ranker_weight=0.5)",
    "parts": f"{DPR} + parts",
    "ancestors": "knn(neighbours=5) + ancestors",
    "pool": f"depsl(encoder='bag', {NET})",
    "unidec": f"unidec(encoder='bag', {NET})",
    "decaf": f"decaf({NET})",
    "eclare": f"eclare({NET})",
    "inception": f"inceptionxml({CONVOLUTIONS})",
    "inception labels": f"inceptionxml-lf({CONVOLUTIONS})",
    "dual foreign": f"dpr(encoder=FOREIGN, {NET})",
    "memory": MEMORY,
    "fuse": f"fuse('knn(neighbours=5)', 'bm25 + rerank', {json.dumps(MEMORY)}, trees=5, min_leaf=2)",
    "lexical": "lexical(trees=5, learned_names=3)",
    "stems": "bm25(words='stem+compounds')",
    "pieces": "centroid(words='stem+chars')",
    "titles": "centroid(title_weight=3, bigrams=true)",
    "joined": "parabel(max_leaf_labels=3, trees=1, feature_weight=0.5)",
    "answers": "predictions(valid=ANSWERS)",
    "features knn": "knn(neighbours=5)",
    "features parabel": "parabel(max_leaf_labels=3, branches=2, trees=2)",
    "features fastxml": "fastxml(trees=3, max_leaf_rows=4)",
    "features bm25": "bm25",
}
VALID = 200  # documents held out
COLUMNS = 15  # features of a document, where a model reads features


def train(folder: Path, only: tuple[str, ...] = ()) -> dict[str, Path]:
    """Train and save the models that are not in the folder yet.

    Args:
        folder: one folder for each model.
        only: names of models; none: all.

    Returns:
        The folders by name, without models that need a package that is not installed.
    """
    import longtail
    from longtail.cutoff import Cutoff
    from longtail.data.table_facts import TableFacts
    from longtail.errors import MissingExtra
    from longtail.metrics import evaluate
    from longtail.recipe import Recipe
    from longtail.report.card import Card

    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for name, recipe in RECIPES.items():
        if only and name not in only:
            continue
        place = folder / name.replace(" ", "-")
        if not place.exists():
            corpus = longtail.load(str(_data(folder)))
            train_split, valid = corpus.train, corpus.valid
            if name.startswith("features") or name == "joined":
                train_split, valid = (_with_features(one, name == "joined") for one in (train_split, valid))
            if "FOREIGN" in recipe and find_spec("transformers") is None:
                print(f"without {name}: transformers is not installed", file=sys.stderr)
                continue
            if "FOREIGN" in recipe:
                recipe = recipe.replace("FOREIGN", repr(str(_foreign(folder / "mpnet"))))
            if "ANSWERS" in recipe:
                recipe = recipe.replace("ANSWERS", repr(str(_answers(folder))))
            try:
                model = Recipe.parse(recipe).fit(train_split, valid)
            except MissingExtra as error:
                print(f"without {name}: {error}", file=sys.stderr)
                continue
            if name == "knn":  # what any model may have besides its parts
                facts = TableFacts(("title", "text"), "subject_*", "id", "|", title_apart=True, ignore_labels=("N/A",))
                model = replace(model, cutoff=Cutoff(0.05, 4, "f1,labels=4"), table=facts)
            card = Card().with_measures("valid", evaluate(model.predict(valid.rows, 5), valid))
            model.save(place, card=card)
        found[name] = place
    return found


def _data(folder: Path) -> Path:
    """Documents over ten labels, which name their labels; the first labels are common, the last ones rare. Held out are
    as many as `doubts` needs for its limits."""
    place = folder / "data"
    if not place.exists():
        place.mkdir()
        labels: list[dict[str, Any]] = [{"id": f"L{row}", "text": f"a {word}"} for row, word in enumerate(WORDS)]
        labels[9]["broader"], labels[8]["broader"] = ["L8"], ["L7"]
        (place / "labels.jsonl").write_text("\n".join(map(json.dumps, labels)) + "\n")
        for split, rows in (("train", 100), ("valid", VALID)):
            lines = []
            for row in range(rows):
                first, second = row % 10 * (row % 3) // 2, row % (2 + row % 9)
                text = f"{WORDS[first]} and the {WORDS[second]} of {WORDS[first]}"
                lines.append({"id": f"{split}{row}", "text": text, "labels": sorted({f"L{first}", f"L{second}"})})
            (place / f"{split}.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    return place


def _answers(folder: Path) -> Path:
    """Answers of another tool for the valid documents: two labels each."""
    lines = [
        {
            "id": f"valid{row}",
            "labels": [{"id": f"L{row % 10}", "score": 0.9}, {"id": f"L{(row + 1) % 10}", "score": 0.1}],
        }
        for row in range(VALID)
    ]
    place = folder / "answers.jsonl"
    place.write_text("\n".join(map(json.dumps, lines)) + "\n")
    return place


def _with_features(data: Any, texts: bool) -> Any:
    """The same documents with features, with or without texts: a column for each label, and some others."""
    import numpy as np
    from scipy import sparse

    from longtail.data import Dataset, LabelSet

    eye = sparse.csr_array(np.eye(len(data.labels), COLUMNS, dtype=np.float32))
    if texts:
        return replace(data, features=features_of(data.targets))
    labels = LabelSet(ids=data.labels.ids, counts=data.labels.counts, train_rows=data.labels.train_rows, features=eye)
    return Dataset(labels=labels, targets=data.targets, ids=data.ids, features=features_of(data.targets))


def features_of(targets: Any) -> Any:
    """Features of documents: csr (documents, COLUMNS)."""
    import numpy as np
    from scipy import sparse

    noise = sparse.csr_array(np.tile(np.float32([0.3, 0, 0.2, 0, 0.1]), (targets.shape[0], 1)))
    return sparse.hstack([targets, noise], format="csr", dtype=np.float32)


def _foreign(folder: Path) -> Path:
    """A pretrained encoder of a family that runs through the transformers package, with random weights."""
    import transformers

    from longtail.nn.encoders.tokenizers import learn_words

    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = transformers.MPNetConfig(vocab_size=40, max_position_embeddings=40, **sizes)
    transformers.AutoModel.from_config(config).save_pretrained(folder)
    (folder / "tokenizer.json").write_bytes(learn_words([*WORDS, "and the of"], 36).to_bytes())
    return folder
