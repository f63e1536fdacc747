"""Classifiers on a trained dual encoder: on its frozen vectors, and then together with the encoder."""

from __future__ import annotations

from typing import Any

import torch

from longtail.arrays import Floats, Longs
from longtail.nn.dual.auxiliary_vectors import SharedVectors
from longtail.nn.dual.classifier_task import ClassifierTask
from longtail.nn.dual.dual_fit import DualEncoderFit
from longtail.nn.dual.dual_task import Loss
from longtail.nn.dual.mined_negatives import nearest_wrong
from longtail.nn.dual.pair_batches import Curriculum, Pairs
from longtail.nn.encoders.text_encoder import normalised
from longtail.nn.training.loop import train
from longtail.nn.training.process_group import ProcessGroup


def learn_classifiers(
    fit: DualEncoderFit,
    loss: Loss,
    batch_size: int,
    epochs: int,
    learning_rate: float,
    dropout: float,
    curriculum: Curriculum | None = None,
    shortlist: int = 0,
) -> Floats:
    """Train one classifier per label on the frozen vectors of the documents, cut to `search_dimension`.

    Args:
        fit: of the encoder.
        loss: of a batch's scores.
        batch_size: documents of a batch.
        epochs: passes over the documents.
        learning_rate: of AdamW.
        dropout: on the documents' vectors.
        curriculum: of batches of similar documents; None: random ones.
        shortlist: of each document, wrong labels whose documents' mean is nearest to it, which join its pool.

    Returns:
        (labels, dimension) unit vectors; each starts from its label's vector.
    """
    documents = fit.searched(fit.document_vectors())
    queries = fit.searched(normalised(fit.held_out_vectors()))
    task = ClassifierTask(
        documents=documents,
        init=fit.searched(fit.label_vectors()),
        pairs=Pairs(fit.train.targets),
        loss=loss,
        batch_size=batch_size,
        learning_rate=learning_rate,
        device=fit.device,
        dropout=dropout,
        seed=fit.settings.seed,
        curriculum=curriculum,
        negatives=_near_means(fit, documents, shortlist) if shortlist else None,
        epochs=epochs,
        penalties=fit.row_penalties(),
        evaluate=(lambda weights: fit.measure_labels(queries, weights)) if len(fit.valid) else None,
    )

    def trained() -> Floats:
        train(task, fit.training_config(epochs), fit.identity())
        return task.vectors

    return ProcessGroup.here().made_by_first(trained)


def _near_means(fit: DualEncoderFit, documents: Floats, shortlist: int) -> Longs:
    items = torch.from_numpy(fit.searched(fit.label_means()))
    return nearest_wrong(torch.from_numpy(documents), items, fit.train.targets, shortlist, fit.device)


def learn_together(
    fit: DualEncoderFit, loss: Loss, classifiers: Floats, epochs: int, rate: float, **more: Any
) -> Floats:
    """Train the encoder on, together with classifiers: a classifier is the vector of its label's text, which moves
    with the encoder, and a free vector.

    Args:
        fit: of the encoder.
        loss: of a batch's scores.
        classifiers: (labels, dimension) unit vectors from `learn_classifiers`.
        epochs: passes over the rows.
        rate: learning rate of encoder and free vectors.
        **more: fields of `DualEncoderTask`.

    Returns:
        (labels, dimension) the classifiers as unit vectors. The label tower of a tail method stays as it was.
    """
    before = fit.tower
    free = SharedVectors.free(classifiers - fit.text_vectors())
    fit.tower = free.to(fit.device)
    fit.learn(loss, epochs=epochs, learning_rate=rate, name="encoder and classifiers", **more)
    learned = fit.label_vectors()
    fit.tower = before
    return learned
