"""Dual encoders: one encoder for documents and labels, which are near each other where they belong together.

    dual_settings       the settings that all dual encoders share; loads no torch
    dual_fit            start reading here: from texts to a trained scorer
    dual_task           the training task: batches to gradients; the protocol of label towers
    dual_scorer         the trained model: encoder, label vectors, search; `unit` normalises vectors
    pair_batches        order of rows, drawn positives, pools, the curriculum of cluster sizes
    contrastive_losses  triplet, softmax, logistic and probabilistic losses of a batch's scores
    balanced_clusters   clusters of equal size, for batches of similar rows
    vector_bank         the last vector of each row, which clusters are made from
    mined_negatives     nearest labels that are wrong
    auxiliary_vectors   label tower with vectors that clusters of labels share (DEXA)
    classifier_task     classifiers on frozen vectors, trained after the encoder
    classifier_fit      trains them, and then encoder and classifiers together
    score_fusion        weights of text, classifier and frequency; Platt scaling

May import nn.encoders, nn.training, search, and what lies below nn.
"""
