"""Training over a pool of labels that the rows of a batch share: dual encoders and classifiers (DEPSL, UniDEC, DEXML).

    pool_settings            how pools are made and classifiers trained; loads no torch
    pool_fit                 start reading here: from texts to a trained scorer
    pool_task                the training task: batches to gradients
    pool_scorer              the trained model: encoder, heads, up to two vectors per label searched as one
    label_sampler            which labels are in a batch's pool
    pool_losses              SupCon, decoupled softmax, InfoNCE and BCE over a pool
    projection_heads         one head compared with label texts, one with classifiers
    classifier_table         one classifier per label with AdamW's moments; a step updates those of its pool
    sharded_table            the same over several processes, each with a range of the labels
    encode_both_sides        documents and labels through the encoder together
    mixed_precision_product  products of bf16 factors with float32 sums
    recorded_loss            the loss and its gradients as a CUDA graph

May import nn.dual, nn.onevsall, nn.encoders, nn.training, search, and what lies below nn.
"""
