"""Claim: each of many small breaks in the core code makes a test fail.

The script copies `src` and `tests` to a temporary folder, applies one break at a time there, and runs the tests that
should see it. The working tree is never changed. First the same tests must pass on the unbroken copy.

    python benchmarks/mutations.py                   all of them: about 6 minutes on two cores
    python benchmarks/mutations.py --only ranknet    those whose file, words or code contain this text
    python benchmarks/mutations.py --list            what would be broken; runs no test

Prints a Markdown table: file, break, the first test that failed, seconds. The exit status is 1 if a break makes no test
fail. It stops before any test where the source has moved: the text that a break replaces must occur exactly once in its
file. Then change the entry in `MUTATIONS`.

Numba stores compiled functions beside their source and does not notice a change in a function that another file calls.
So a break in a file with compiled functions is tested with an empty cache, which takes some seconds more.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

from shared.command import parser_for
from shared.tables import table

ROOT = Path(__file__).resolve().parent.parent
SOURCE = Path("src/longtail")
LIMIT = 300  # seconds for the tests of one break


@dataclass(frozen=True)
class Mutation:
    """A small break, and the tests that should see it."""

    file: str  # under src/longtail
    what: str  # the break in words
    find: str  # occurs exactly once in the file
    replace: str
    tests: str  # pytest node ids under tests, separated by spaces


@dataclass(frozen=True)
class Outcome:
    """What the tests said about a break."""

    mutation: Mutation
    caught_by: str  # the first test that failed; empty where none did
    seconds: float
    output: str  # of pytest


# fmt: off
MUTATIONS: tuple[Mutation, ...] = (
    Mutation(
        "nn/label_tree/level_heads.py", "an example's own clusters may fall out of its candidates in training",
        "guide, nodes = torch.sigmoid(scores.detach()) + (targets > 0), None",
        "guide, nodes = torch.sigmoid(scores.detach()), None",
        "nn/test_label_tree.py nn/test_attention_heads.py",
    ),
    Mutation(
        "nn/label_tree/level_heads.py", "a score of 0 is taken for padding",
        "probability = F.logsigmoid(self._score(vectors, level, parents)).masked_fill(~real, -math.inf)",
        "found = self._score(vectors, level, parents)\n"
        "            probability = F.logsigmoid(found).masked_fill(~real | (found == 0), -math.inf)",
        "nn/test_label_tree.py",
    ),
    Mutation(
        "nn/label_tree/level_heads.py", "padding counts in the mean of a level",
        "(cross_entropy(scores, targets) * real).sum() / real.sum()", "cross_entropy(scores, targets).mean()",
        "nn/test_label_tree.py",
    ),
    Mutation(
        "nn/label_tree/level_heads.py", "more clusters are asked for than a level has",
        "found = [min(beam, levels.nodes(0))]", "found = [beam]",
        "nn/test_label_tree.py",
    ),
    Mutation(
        "nn/label_tree/level_heads.py", "more answers are asked for than there are candidates",
        "torch.topk(held, min(k, held.shape[1]), dim=1)", "torch.topk(held, k, dim=1)",
        "nn/test_label_tree.py learners/test_larger_than_the_data.py",
    ),
    Mutation(
        "nn/label_tree/graph_heads.py", "an example's own clusters may fall out of its shortlist in training",
        "torch.topk(guide + asked,", "torch.topk(guide,",
        "nn/test_cluster_graph.py",
    ),
    Mutation(
        "nn/label_tree/graph_heads.py", "an example with many clusters loses some of its own",
        ".clamp(min=self.beam)\n", ".clamp(min=self.beam, max=self.beam)\n",
        "nn/test_cluster_graph.py",
    ),
    Mutation(
        "nn/label_tree/cluster_graph.py", "a rare label falls out of every cluster",
        "keep = kept_first | (rank < links)", "keep = rank < links",
        "nn/test_cluster_graph.py",
    ),
    Mutation(
        "nn/label_tree/graph_fit.py", "parameters are told apart by their shapes",
        "if parameter is not clusters]", "if parameter.shape != clusters.shape]",
        "nn/test_cluster_graph.py",
    ),
    Mutation(
        "nn/label_tree/graph_heads.py", "a probability near 0 has no gradient",
        "log_p = logs + F.logsigmoid(self._scores(seen, labels))\n",
        "log_p = (logs + F.logsigmoid(self._scores(seen, labels))).exp().clamp(min=1e-7).log()\n",
        "nn/test_cluster_graph.py",
    ),
    Mutation(
        "nn/label_tree/resolution_task.py", "predicted nodes push an example's own ones out",
        "-counts.data.astype(np.float64) - 1e6", "1e6 - counts.data.astype(np.float64)",
        "nn/test_resolutions.py",
    ),
    Mutation(
        "nn/label_tree/resolution_task.py", "padding counts in the mean of an example",
        "(losses.sum(dims) / real.sum(dims)).mean()", "losses.mean()",
        "nn/test_resolutions.py",
    ),
    Mutation(
        "nn/label_tree/attention_heads.py", "padding is looked at",
        "found = found.masked_fill(~read.mask.unsqueeze(1), -torch.inf)", "found = found * 1",
        "nn/test_attention_heads.py",
    ),
    Mutation(
        "nn/label_tree/tree_task.py", "dropout goes on where it is to be off",
        "with_dropout = batch.number < self.dropout_until * self.steps", "with_dropout = True",
        "nn/test_label_tree.py",
    ),
    Mutation(
        "nn/label_tree/candidate_blocks.py", "a target counts though its cluster is no candidate",
        "torch.where(inside, place, size)", "place.clamp(0, size)",
        "nn/test_label_tree.py",
    ),
    Mutation(
        "linear/trees/dense_kernels.py", "a dense column is read as a word",
        "if column < first:", "if column <= first:",
        "linear/test_linear_dense.py",
    ),
    Mutation(
        "linear/trees/beam_kernels.py", "every row of a node gets the dense products of the first of four",
        "base = np.uintp(slot * padded)", "base = np.uintp(0 * padded)",
        "linear/test_linear_dense.py",
    ),
    Mutation(
        "linear/trees/train_tree.py", "small weights of the vector are dropped",
        "all_of = pruned(weights[kept:], names[kept:], children, NO_THRESHOLD)",
        "all_of = pruned(weights[kept:], names[kept:], children, threshold)",
        "linear/test_linear_dense.py",
    ),
    Mutation(
        "nn/label_tree/resolution_task.py", "soft targets of a level count in full",
        "torch.where(positive, targets, 1.0)", "torch.where(positive, 1.0, 1.0)",
        "nn/test_resolutions.py",
    ),
    Mutation(
        "nn/label_tree/graph_heads.py", "soft targets count in full",
        "-(targets * log_p + (1 - targets) * torch.log1p(-p))",
        "-((targets > 0) * log_p + (targets <= 0) * torch.log1p(-p))",
        "nn/test_cluster_graph.py",
    ),
    Mutation(
        "dial.py", "the dial divides by the inverse propensity",
        "* weights**dial)", "/ weights**dial)",
        "test_dial.py",
    ),
    Mutation(
        "dial.py", "the curve turns twice as far",
        "weights**step, CURVE_KS[-1]", "weights**(2 * step), CURVE_KS[-1]",
        "test_dial.py",
    ),
    Mutation(
        "metrics/significance.py", "Holm's correction counts one test less",
        "np.arange(len(p), 0, -1)", "np.arange(len(p) - 1, -1, -1)",
        "metrics/test_metrics_significance.py",
    ),
    Mutation(
        "metrics/significance.py", "the randomisation test looks at one side only",
        "as_far += (np.abs(total - 2 * (swapped[:size] @ flat)) >= least)",
        "as_far += ((total - 2 * (swapped[:size] @ flat)) >= least)",
        "metrics/test_metrics_significance.py",
    ),
    Mutation(
        "metrics/significance.py", "every resample draws each unit once",
        "weights[row] = np.bincount(drawn, minlength=units)", "weights[row] = 1.0",
        "metrics/test_metrics_significance.py",
    ),
    Mutation(
        "learners/memory.py", "neighbours vote with equal weight",
        "/ np.float32(self.temperature))", "* np.float32(0))",
        "learners/test_learners_memory.py",
    ),
    Mutation(
        "learners/memory.py", "new examples replace the last label's votes",
        "np.concatenate([self.vectors, self.encoding.row_vectors(rows)])",
        "np.concatenate([self.encoding.row_vectors(rows), self.vectors])",
        "learners/test_learners_memory.py",
    ),
    Mutation(
        "doubts.py", "texts are flagged above the limit",
        "if share < self.known_share:", "if share > self.known_share:",
        "test_doubts.py",
    ),
    Mutation(
        "linear/fusion/combiner.py", "odds are not corrected for the wrong candidates that were left out",
        "log_kept = float(np.log(share))", "log_kept = 0.0",
        "linear/test_linear_fusion.py learners/test_learners_fuse.py",
    ),
    Mutation(
        "metrics/kernels.py", "an excluded label takes a place of the top k",
        "if known == _EXCLUDED:", "if known == -9:",
        "metrics/test_metrics_traps.py::test_excluded_pairs_go_before_the_top_k",
    ),
    Mutation(
        "metrics/kernels.py", "a repeated label counts twice",
        "if known == _TAKEN:", "if known == -9:",
        "metrics/test_metrics_traps.py::test_a_repeated_label_counts_once_and_does_not_use_a_place",
    ),
    Mutation(
        "metrics/kernels.py", "nDCG is divided by the ideal of k labels, not of those a row has",
        "discounted / ideal[reach]", "discounted / ideal[ks[step]]",
        "metrics/test_metrics_traps.py::test_ndcg_is_normalised_by_the_labels_a_row_has",
    ),
    Mutation(
        "metrics/tally.py", "the discount of nDCG starts one place later",
        "np.arange(2, reach[-1] + 2, dtype", "np.arange(3, reach[-1] + 3, dtype",
        "metrics/test_metrics_worked.py::test_worked_by_hand",
    ),
    Mutation(
        "metrics/evaluate.py", "PSP is divided by places, not by what could be reached",
        "_ratio(sums[:, kernels.GAIN], sums[:, kernels.BEST_GAIN])",
        "sums[:, kernels.GAIN] / (rows * np.array(counted.ks))",
        "metrics/test_metrics_traps.py::test_psp_is_a_ratio_of_sums_not_a_mean_of_ratios",
    ),
    Mutation(
        "metrics/evaluate.py", "coverage is a share of all labels, not of those with a test positive",
        "max(1, int((positives > 0).sum())),\n        \"macroP\"", "labels,\n        \"macroP\"",
        "metrics/test_metrics_worked.py::test_coverage_counts_a_label_once_and_only_labels_with_a_positive",
    ),
    Mutation(
        "metrics/evaluate.py", "macro F1 counts a hit once",
        "_ratio(2 * found, predicted + positives)", "_ratio(found, predicted + positives)",
        "metrics/test_metrics_worked.py::test_worked_by_hand",
    ),
    Mutation(
        "metrics/evaluate.py", "errors of calibration cancel each other",
        "np.abs(scores - hits).sum(axis=1)", "np.abs((scores - hits).sum(axis=1))",
        "metrics/test_metrics_worked.py::test_calibration_error_by_hand",
    ),
    Mutation(
        "metrics/propensity.py", "C of the propensity is ln N",
        "labels.train_rows)) - 1.0)", "labels.train_rows)))",
        "metrics/test_metrics_frequency.py::test_inverse_propensity_by_hand",
    ),
    Mutation(
        "metrics/frequency.py", "a label is in the bin of its last positive",
        "np.cumsum(counts) - counts", "np.cumsum(counts)",
        "metrics/test_metrics_frequency.py::test_equal_shares_by_hand",
    ),
    Mutation(
        "metrics/frequency.py", "a label with five rows is no tail label",
        "counts <= TAIL_ROWS", "counts < TAIL_ROWS",
        "metrics/test_metrics_frequency.py::test_bands_by_hand",
    ),
    Mutation(
        "metrics/threshold.py", "a threshold may divide equal scores",
        "f1[:-1][scores[:-1] == scores[1:]] = 0", "f1[:-1][scores[:-1] < scores[1:]] = 0",
        "metrics/test_metrics_threshold.py::test_no_other_threshold_gives_more_f1",
    ),
    Mutation(
        "data/labels.py", "soft targets count in part",
        "occurrences(targets.indices, len(self))", "np.bincount(targets.indices, targets.data, len(self))",
        "data/test_dataset.py::test_a_soft_target_counts_as_a_row",
    ),
    Mutation(
        "data/corpus.py", "labels are counted after valid rows are held out",
        "empty = train.take([])", "empty, labels = train.take([]), labels.counted(train.targets)",
        "data/test_dataset.py::test_counts_come_from_the_rows_as_given",
    ),
    Mutation(
        "data/dataset.py", "joined entries replace larger targets",
        "self.targets.maximum(", "self.targets.minimum(",
        "data/test_dataset.py::test_entries_join_and_the_larger_stays",
    ),
    Mutation(
        "data/dataset.py", "added rows look like given ones",
        "np.full(number, names.index(origin)", "np.full(number, 0",
        "data/test_dataset.py::test_added_rows_keep_their_origin",
    ),
    Mutation(
        "data/dataset.py", "added rows lose the excluded pairs of the others",
        "excluded=None\n            if self.excluded is None\n", "excluded=None\n            if True\n",
        "data/test_dataset.py::test_added_rows_keep_their_origin",
    ),
    Mutation(
        "predictions.py", "equal scores stand in reverse order",
        "np.lexsort((indices, ", "np.lexsort((-indices, ",
        "tail/test_tail_rerank.py::test_ties_stand_by_label",
    ),
    Mutation(
        "predictions.py", "excluded pairs stay",
        "drop = (self.indices < 0) | self.hits(excluded)", "drop = self.indices < 0",
        "metrics/test_metrics_traps.py::test_excluded_pairs_are_dropped_as_predictions_without_drops_them",
    ),
    Mutation(
        "predictions.py", "an empty place hits the last label of the row before",
        "return (self.indices >= 0) & np.isin", "return np.isin",
        "test_predictions.py::test_an_empty_place_is_no_hit",
    ),
    Mutation(
        "held_out.py", "a fold's model has seen its rows",
        "(np.setdiff1d(every, shuffled[fold::number]), wanted", "(every, wanted",
        "test_recipe_folds.py::test_every_row_is_predicted_once_by_a_model_that_has_not_seen_it",
    ),
    Mutation(
        "held_out.py", "rows that were added are predicted out of fold",
        "given = np.flatnonzero(self.train.origins == 0)", "given = np.arange(len(self.train))",
        "test_recipe_folds.py::test_rows_that_were_added_before_are_learned_from_and_not_predicted",
    ),
    Mutation(
        "recipe.py", "earlier re-rankers are left out of folds",
        "valid=valid, methods=place)", "valid=valid, methods=0)",
        "test_recipe_folds.py::test_earlier_rerankers_are_applied_and_later_ones_are_not",
    ),
    Mutation(
        "held_out.py", "out-of-fold predictions keep excluded pairs",
        "predict(unseen.rows, CANDIDATES, unseen.excluded)", "predict(unseen.rows, CANDIDATES)",
        "test_recipe_folds.py::test_excluded_pairs_are_honoured",
    ),
    Mutation(
        "model_loading.py", "checksums of files are not compared",
        " or checksum(raw) != facts[\"sha256\"]", "",
        "test_store.py::test_random_damage_is_always_noticed",
    ),
    Mutation(
        "model_loading.py", "a changed manifest is read",
        "    if not same:", "    if same is None:",
        "test_store.py::test_random_damage_is_always_noticed",
    ),
    Mutation(
        "linear/trees/beam_search.py", "the beam is one node narrower",
        "beam = min(beam, len(forest.node_leaf))", "beam = min(max(beam - 1, 1), len(forest.node_leaf))",
        "linear/test_linear_tree.py::test_the_beam_keeps_as_many_nodes_as_it_is_wide",
    ),
    Mutation(
        "linear/trees/beam_search.py", "weights are cut off, not rounded",
        "np.rint(chunk.weights", "np.trunc(chunk.weights",
        "linear/test_linear_tree.py::test_a_weight_is_kept_to_half_a_step_of_its_chunk",
    ),
    Mutation(
        "linear/trees/beam_best.py", "a label is summed only where it is among the best of one tree",
        "worth[0] / np.float32(trees * 1.0001)", "worth[0]",
        "linear/test_linear_tree.py::test_a_row_gets_the_same_answer_alone_and_in_company",
    ),
    Mutation(
        "linear/trees/train_tree.py", "a node has the smallest target of its labels",
        "np.maximum.reduceat(leaves.data, begin)", "np.minimum.reduceat(leaves.data, begin)",
        "linear/test_linear_tree.py::test_a_node_has_the_largest_target_of_its_labels",
    ),
    Mutation(
        "linear/trees/train_tree.py", "the weight of the path is not its square root",
        "np.float32(np.sqrt(weight))", "np.float32(weight)",
        "linear/test_linear_hard_negatives.py::test_path_weight_is_the_share_of_a_forks_log_probability_that_counts",
    ),
    Mutation(
        "linear/trees/train_tree.py", "an only child is less likely than its parent",
        "np.full((1, 1), SURE, ", "np.full((1, 1), 0, ",
        "linear/test_linear_tree.py::test_an_only_child_is_as_likely_as_its_parent",
    ),
    Mutation(
        "linear/trees/train_tree.py", "the relative threshold is not relative",
        "threshold = threshold * np.abs", "threshold = threshold + 0 * np.abs",
        "linear/test_linear_tree.py::test_a_relative_threshold_is_a_share_of_each_classifiers_largest_weight",
    ),
    Mutation(
        "linear/trees/hard_negatives.py", "one hard negative fewer",
        "np.cumsum(wrong, axis=1) <= number", "np.cumsum(wrong, axis=1) < number",
        "linear/test_linear_hard_negatives.py",
    ),
    Mutation(
        "linear/solvers/pruning.py", "small weights are kept by their sign",
        "abs(weights[feature, lane]) >= bound[lane]", "weights[feature, lane] >= bound[lane]",
        "linear/test_linear_solve.py::test_small_weights_are_dropped",
    ),
    Mutation(
        "linear/solvers/pruning.py", "a weight at the threshold is dropped",
        "abs(weights[feature, lane]) >= bound[lane]", "abs(weights[feature, lane]) > bound[lane]",
        "linear/test_linear_solve.py::test_small_weights_are_dropped",
    ),
    Mutation(
        "linear/features/sparse_top.py", "of equal values the later column stands first",
        "left_column > right_column", "left_column < right_column",
        "linear/test_linear_top.py::test_agrees_with_the_whole_product",
    ),
    Mutation(
        "linear/features/label_means.py", "the distance to the mean counts the product once",
        "+ 1.0 - 2.0 * product", "+ 1.0 - product",
        "tail/test_tail_centroid.py::test_scores_are_blended_by_formula",
    ),
    Mutation(
        "linear/solvers/logistic.py", "the prior is centred at zero",
        "+ prior_strength * weights - prior_strength * mean", "+ prior_strength * weights",
        "linear/test_linear_logistic.py::test_reaches_the_optimum",
    ),
    Mutation(
        "linear/solvers/score_scale.py", "a better score may mean a smaller probability",
        "if weights[0] < MIN_SCALE:", "if weights[0] < -1e9:",
        "linear/test_linear_scale.py::test_misleading_scores_get_the_smallest_scale_and_the_right_mean",
    ),
    Mutation(
        "linear/solvers/score_scale.py", "the share of the rows that a model saw is ignored",
        "cls(1.0, 0.0, math.log(share))", "cls(1.0, 0.0, 0.0)",
        "linear/test_linear_scale.py::test_without_held_out_rows_the_odds_are_score_times_share",
    ),
    Mutation(
        "linear/solvers/platt_scaling.py", "Platt scaling is fitted to any number of hits",
        "if hits.sum() < MIN_HITS or", "if hits.sum() < 1 or",
        "nn/test_nn_blend.py::test_too_few_hits_change_nothing",
    ),
    Mutation(
        "linear/solvers/candidate_probability.py", "the frequency of a label is ignored",
        "np.log1p(counts)", "np.log1p(0 * counts)",
        "linear/test_linear_text.py::test_probabilities_are_calibrated_and_follow_a_known_truth",
    ),
    Mutation(
        "linear/solvers/ranknet_kernels.py", "the more frequent of two right labels rises",
        "weight = (counts[i] - counts[j])", "weight = (counts[j] - counts[i])",
        "tail/test_tail_ranknet.py::test_a_pair_of_positives_pulls_the_rarer_up_and_equal_counts_pull_nothing",
    ),
    Mutation(
        "linear/solvers/ranknet_kernels.py", "the easiest negatives are taken",
        "> scores[places[best]]", "< scores[places[best]]",
        "tail/test_tail_ranknet.py::test_negatives_are_the_highest_usable_candidates_and_never_positives",
    ),
    Mutation(
        "linear/features/noise.py", "a noisy copy may lose all its words",
        "(draws < keep) | (draws == np.repeat(smallest, lengths[filled]))", "draws < keep",
        "linear/test_linear_noise.py::test_copies_have_only_words_of_their_row_and_at_least_one",
    ),
    Mutation(
        "linear/features/mixed_examples.py", "both rows of a mixture have the same weight",
        "_scaled(second, 1 - parts)", "_scaled(second, parts)",
        "linear/test_linear_mixing.py::test_features_are_the_weighted_mean",
    ),
    Mutation(
        "tail/rerank.py", "the strength is ignored",
        "inverse_propensity(held_out.labels) ** self.strength", "inverse_propensity(held_out.labels)",
        "tail/test_tail_rerank.py::test_strength_zero_changes_nothing",
    ),
    Mutation(
        "tail/taug.py", "the head is one label too small where a product is rounded down",
        "self.head_share * len(labels) + 1e-9", "self.head_share * len(labels)",
        "tail/test_tail_taug.py::test_the_floor_does_not_stumble_over_floating_point",
    ),
    Mutation(
        "tail/taug.py", "the head gets the copies",
        "if name == \"tail\":", "if name == \"head\":",
        "tail/test_tail_taug.py::test_only_the_tail_gets_copies",
    ),
    Mutation(
        "tail/taug.py", "a side learns from rows without a label of its own",
        "rows.take(np.flatnonzero(np.diff(rows.targets.indptr)))", "rows",
        "tail/test_tail_taug.py::test_a_row_with_head_and_tail_labels_is_in_both_parts_with_its_own_targets",
    ),
    Mutation(
        "linear/fusion/sides.py", "excluded pairs are learned from",
        "kept = (places >= 0) & ~banned", "kept = places >= 0",
        "tail/test_tail_taug.py::test_probabilities_of_valid_candidates_are_right_as_often_as_they_say",
    ),
    Mutation(
        "linear/fusion/sides.py", "each side takes its own best score for the rival's",
        "for other in best if other != name", "for other in best if other == name",
        "tail/test_tail_taug.py::test_each_label_comes_from_its_own_side",
    ),
    Mutation(
        "tail/ranknet.py", "a label that can never be right is a negative",
        "usable=examples > 1", "usable=examples > 0",
        "tail/test_tail_ranknet.py::test_only_candidates_are_touched_and_a_label_that_cannot_be_right_never_sinks",
    ),
    Mutation(
        "tail/ranknet.py", "the step is chosen by PSP alone",
        "found[min(k, len(found)) - 1] / (k * len(data)) + gained", "gained",
        "tail/test_tail_ranknet.py::test_precision_and_propensity_scored_precision_decide_together",
    ),
    Mutation(
        "tail/calibrate.py", "labels never seen in training share the curve of the most frequent",
        "np.where(bin_of < 0, bins, bin_of)", "np.where(bin_of < 0, 0, bin_of)",
        "tail/test_tail_calibrate.py::test_labels_never_seen_in_training_share_the_curve_of_the_rarest",
    ),
    Mutation(
        "tail/calibrate.py", "a group of few hits has a curve of its own",
        "hits_of_group >= MIN_HITS and hits[number:]", "hits_of_group >= 0 and hits[number:]",
        "tail/test_tail_calibrate.py::test_groups_without_hits_join_the_more_frequent_ones",
    ),
    Mutation(
        "tail/calibrate.py", "probabilities may be 0 and 1",
        "for end in (0, -1):", "for end in ():",
        "tail/test_tail_calibrate.py::test_steps_are_those_of_the_formula",
    ),
    Mutation(
        "tail/ensemble.py", "each model ranks all labels",
        "kept = (labels >= 0) & own[labels]", "kept = labels >= 0",
        "tail/test_tail_ensemble.py::test_the_encoder_learns_from_given_rows_and_has_labels_up_to_the_threshold",
    ),
    Mutation(
        "tail/ensemble.py", "the encoder learns from rows that other methods added",
        "train.take(train.origins == 0)", "train",
        "tail/test_tail_ensemble.py::test_the_encoder_learns_from_given_rows_and_has_labels_up_to_the_threshold",
    ),
    Mutation(
        "tail/ensemble.py", "a label at the threshold is frequent",
        "tail = counts <= threshold\n", "tail = counts < threshold\n",
        "tail/test_tail_ensemble.py::test_the_encoder_learns_from_given_rows_and_has_labels_up_to_the_threshold",
    ),
    Mutation(
        "tail/gandalf.py", "labels are linked by rows that other methods added",
        "given = train.targets if not train.origins.any() else train.targets[np.flatnonzero(train.origins == 0)]",
        "given = train.targets",
        "tail/test_tail_gandalf.py::test_graph_comes_from_given_rows_alone",
    ),
    Mutation(
        "tail/gandalf.py", "the label itself is lowered like soft targets",
        "np.where(rows == graph.indices, graph.data, graph.data * lower[rows])", "graph.data * lower[rows]",
        "tail/test_tail_gandalf.py::test_soft_targets_are_lowered_and_the_label_itself_is_not",
    ),
    Mutation(
        "tail/gandalf.py", "a row with max_labels labels links none",
        "np.flatnonzero(labels_of_row <= limit)", "np.flatnonzero(labels_of_row < limit)",
        "tail/test_tail_gandalf.py::test_a_long_row_links_none_of_its_labels",
    ),
    Mutation(
        "tail/mixup.py", "a row is mixed with itself",
        "rng.integers(1, len(train), number)", "rng.integers(0, 1, number)",
        "tail/test_tail_mixing.py::test_mixed_targets_are_the_weighted_sum",
    ),
    Mutation(
        "tail/glas.py", "co-occurrence counts rows that other methods added",
        "train.targets[np.flatnonzero(train.origins == 0)]", "train.targets",
        "nn/test_heads_penalties.py::test_co_occurrence_is_that_of_the_original_rows",
    ),
    Mutation(
        "tail/dexa.py", "a label at the bound shares its vector",
        "labels.counts >= self.head_min_count", "labels.counts > self.head_min_count",
        "tail/test_tail_dexa.py::test_a_label_with_head_min_count_rows_has_a_vector_of_its_own",
    ),
    Mutation(
        "tail/lever.py", "the teacher learns from rows that other methods added",
        "given = seen[train.origins[seen] == 0]", "given = seen",
        "tail/test_tail_lever.py::test_the_teacher_learns_only_from_the_rows_as_given",
    ),
    Mutation(
        "search/soft.py", "a label's own text is not counted",
        "positives - 1 - counts", "positives - counts",
        "search/test_soft.py::test_labels_with_few_rows_are_topped_up",
    ),
    Mutation(
        "search/soft.py", "documents that have the label are found again",
        "kept = (found >= 0) & ~_has_entry(targets, found, rare)", "kept = found >= 0",
        "search/test_soft.py::test_labels_with_few_rows_are_topped_up",
    ),
    Mutation(
        "search/soft.py", "excluded documents get the label",
        "kept &= ~_has_entry(excluded, found, rare)", "kept &= found >= 0",
        "tail/test_tail_lever.py::test_given_labels_and_excluded_pairs_are_left_alone",
    ),
    Mutation(
        "search/soft.py", "a label row has one label too many",
        "near.rows[:, : number - 1], near.cosines[:, : number - 1]", "near.rows[:, :number], near.cosines[:, :number]",
        "search/test_soft.py::test_fewer_targets_can_be_cut_from_more_neighbours",
    ),
    Mutation(
        "search/soft.py", "the floor is a cosine",
        "np.float32(2 * floor - 1)", "np.float32(floor)",
        "search/test_soft.py::test_labels_of_label_rows",
    ),
    Mutation(
        "search/exact.py", "half precision gets no longer shortlist",
        "min(2 * k + 32, len(self.vectors)) if", "k if",
        "search/test_exact.py::test_real_numbers",
    ),
    Mutation(
        "nn/distill/relevance.py", "a cosine is its own relevance",
        "np.clip((1 + scores) / 2, 0, 1)", "np.clip(scores, 0, 1)",
        "tail/test_tail_lever.py::test_soft_data_is_what_the_paper_says",
    ),
    Mutation(
        "nn/distill/soft_labels.py", "soft labels of documents are not blended",
        "len(train), self.floor, self.probabilities, 1 - blend)", "len(train), self.floor, self.probabilities, 1.0)",
        "tail/test_tail_lever.py::test_soft_data_is_what_the_paper_says",
    ),
    Mutation(
        "nn/distill/soft_labels.py", "far pairs get soft labels where cosines are relevances",
        "MIN_SIMILARITY if estimator ==", "0.0 if estimator ==",
        "tail/test_tail_lever.py::test_relevances_are_learned_where_valid_has_enough_labels",
    ),
    Mutation(
        "nn/distill/soft_labels.py", "weighted relevances may exceed 1",
        "np.minimum(found * self.weights[labels], np.float32(1))", "found * self.weights[labels]",
        "tail/test_tail_lever.py::test_relevances_of_rare_labels_grow_by_their_inverse_propensity",
    ),
    Mutation(
        "nn/training/loop.py", "accumulated gradients are summed, not averaged",
        "self.task.backward(batch, 1 / len(group))", "self.task.backward(batch, 1.0)",
        "nn/test_nn_loop.py::test_the_gradient_of_accumulated_batches_is_that_of_one_large_batch",
    ),
    Mutation(
        "nn/training/loop.py", "the last, shorter step of an epoch has a smaller gradient",
        "self.task.backward(batch, 1 / len(group))", "self.task.backward(batch, 1 / self.config.accumulation_steps)",
        "nn/test_nn_loop.py::test_the_gradient_of_accumulated_batches_is_that_of_one_large_batch",
    ),
    Mutation(
        "nn/training/loop.py", "an equal validation counts as a gain",
        "if value > self.best:", "if value >= self.best:",
        "nn/test_nn_loop.py::test_stops_without_gain_and_keeps_the_best",
    ),
    Mutation(
        "nn/training/loop.py", "the best weights are not loaded at the end",
        "self._load_weights(self.best_weights)", "pass",
        "nn/test_nn_loop.py::test_stops_without_gain_and_keeps_the_best",
    ),
    Mutation(
        "nn/training/loop.py", "the first learning rate of the warm-up is 0",
        "return (step + 1) / warmup", "return step / warmup",
        "nn/test_nn_loop.py::test_learning_rates_rise_then_fall",
    ),
    Mutation(
        "nn/training/gradient_cache.py", "a piece is computed again with other dropout",
        "            _restore(state)\n", "",
        "nn/test_nn_batches.py::test_cached_gradients_are_those_of_the_whole_batch",
    ),
    Mutation(
        "nn/dual/contrastive_losses.py", "other positives are masked with a finite score",
        "logits.masked_fill(others, -math.inf)", "logits.masked_fill(others, 0)",
        "nn/test_losses.py::test_positives_not_chosen_are_no_negatives",
    ),
    Mutation(
        "nn/dual/contrastive_losses.py", "weights of the triplet loss have a gradient",
        "(rivals.detach() / temperature)", "(rivals / temperature)",
        "nn/test_losses.py::test_triplet_weights_are_constants_to_the_gradient",
    ),
    Mutation(
        "nn/dual/contrastive_losses.py", "negatives within the margin count",
        "violates = gap > 0\n    if temperature", "violates = gap > -margin\n    if temperature",
        "nn/test_losses.py::test_triplet_is_the_slow_one",
    ),
    Mutation(
        "nn/dual/pair_batches.py", "positives are drawn evenly, whatever their targets",
        "if self._sums is None:", "if True:",
        "nn/test_nn_batches.py::test_positives_are_drawn_in_proportion_to_their_targets",
    ),
    Mutation(
        "nn/dual/pair_batches.py", "a row weighs as its smallest target",
        "np.maximum.reduceat(targets.data", "np.minimum.reduceat(targets.data",
        "nn/test_nn_batches.py::test_batches_match_a_plain_loop",
    ),
    Mutation(
        "nn/dual/mined_negatives.py", "positives are mined as hard negatives",
        "found.masked_fill(known[place] == keys, -1)", "found",
        "nn/test_mined.py::test_nearest_wrong_is_a_sort_without_what_is_right",
    ),
    Mutation(
        "nn/dual/score_fusion.py", "the fused vector ignores the weight of the classifier",
        "np.float32(self.classifier) * classifiers", "classifiers",
        "nn/test_nn_blend.py::test_one_vector_a_label_scores_as_the_two_do",
    ),
    Mutation(
        "nn/dual/score_fusion.py", "a cosine may count against a label",
        "max(weights[name], 0.0) for name", "weights[name] for name",
        "nn/test_nn_blend.py::test_a_cosine_that_counts_against_labels_is_left_out",
    ),
    Mutation(
        "nn/dual/auxiliary_vectors.py", "a new cluster starts from the sum of its labels' vectors",
        "table[self.cluster]) / sizes)", "table[self.cluster]))",
        "tail/test_tail_dexa.py::test_a_new_clustering_begins_at_the_mean_of_its_labels_vectors",
    ),
    Mutation(
        "nn/pool/pool_losses.py", "a row with soft targets alone counts in full",
        "targets * (targets.amax(dim, keepdim=True) / ", "targets * (1.0 / ",
        "nn/test_pool_losses.py::test_supcon_and_decoupled_are_their_formulas",
    ),
    Mutation(
        "nn/pool/pool_losses.py", "a soft target is no negative at all",
        "torch.log1p(-self.targets)", "torch.log1p(-(self.targets > 0).to(self.targets.dtype))",
        "nn/test_pool_losses.py::test_supcon_and_decoupled_are_their_formulas",
    ),
    Mutation(
        "nn/pool/label_sampler.py", "smaller targets are drawn more often",
        "rng.exponential(size=len(row_of)) / weights", "rng.exponential(size=len(row_of)) * weights",
        "nn/test_pool_picks.py::test_larger_targets_are_drawn_more_often",
    ),
    Mutation(
        "nn/pool/label_sampler.py", "one positive too many is drawn",
        "- first < self.positives]", "- first <= self.positives]",
        "nn/test_pool_picks.py::test_at_most_so_many_positives_are_drawn_and_no_one_twice",
    ),
    Mutation(
        "nn/onevsall/onevsall_settings.py", "rare labels weigh no more by default",
        "propensity_power: float = 0.15", "propensity_power: float = 0.0",
        "learners/test_learners_renee.py::test_a_positive_weighs_more_the_rarer_its_label",
    ),
    Mutation(
        "nn/onevsall/onevsall_fit.py", "the propensity weight is computed and not used",
        "own.positive_weight, inverse, first, last", "own.positive_weight, None, first, last",
        "learners/test_learners_renee.py::test_a_positive_weighs_more_the_rarer_its_label",
    ),
    Mutation(
        "nn/onevsall/batch_targets.py", "a process of several takes the weights of the first labels",
        "self.inverse_propensities[labels]", "self.inverse_propensities[labels - self.first]",
        "nn/test_heads.py::test_a_range_of_labels_has_the_propensities_of_its_own_labels",
    ),
    Mutation(
        "nn/onevsall/batch_targets.py", "duplicate targets add up",
        "np.maximum.reduceat(shares, firsts)", "np.add.reduceat(shares, firsts)",
        "nn/test_heads.py::test_duplicates_count_once_and_ranges_of_labels_add_up",
    ),
    Mutation(
        "nn/onevsall/plain_head.py", "a soft target is a positive in full",
        "part.negative_weight * negative_gradient_(", "0 * negative_gradient_(",
        "nn/test_heads.py::test_bce_is_that_of_torch",
    ),
    Mutation(
        "nn/onevsall/onevsall_task.py", "dropout shrinks the vectors",
        "keep.div_(1 - self.dropout)", "keep",
        "nn/test_heads_task.py::test_the_dropout_mask_depends_on_the_step_and_keeps_the_mean",
    ),
    Mutation(
        "nn/onevsall/penalties.py", "half of the sampled labels do not co-occur with the others",
        "[first, self.cooccurrence.indices[places]]", "[first, rng.integers(number, size=len(first))]",
        "nn/test_heads_penalties.py::test_half_of_the_sample_co_occurs_with_the_other_half",
    ),
    Mutation(
        "nn/shallow/shortlists.py", "a row votes for its own labels",
        "others = similar != np.arange(len(rows))[:, None]", "others = similar >= 0",
        "nn/test_shallow.py::test_a_row_has_no_vote_in_its_own_shortlist",
    ),
    Mutation(
        "nn/shallow/label_pool.py", "the pool lacks labels of its rows",
        "kept[positives] = True", "kept[positives[1:]] = True",
        "nn/test_shallow.py::test_pool_holds_every_positive",
    ),
    Mutation(
        "learners/bm25.py", "long label texts are not penalised",
        "self.b * lengths / max(lengths.mean(), 1e-12)", "self.b * np.ones(labels)",
        "learners/test_learners_reference.py::test_bm25_prefers_short_label_texts",
    ),
    Mutation(
        "learners/knn.py", "one neighbour fewer votes",
        "number = min(self.neighbours, self.index.shape[1])", "number = min(self.neighbours, self.index.shape[1]) - 1",
        "learners/test_learners_reference.py::test_as_many_neighbours_vote_as_the_setting_says",
    ),
)
# fmt: on


def moved(mutations: Sequence[Mutation]) -> list[str]:
    """A line for each mutation whose text does not occur exactly once, or whose tests do not exist."""
    wrong = []
    for mutation in mutations:
        place = ROOT / SOURCE / mutation.file
        found = place.read_text().count(mutation.find) if place.is_file() else 0
        if found != 1:
            wrong.append(f"{mutation.file}: {mutation.what}: {mutation.find!r} occurs {found} times, not once")
        for test in mutation.tests.split():
            path, _, name = test.partition("::")
            name = name.partition("[")[0]
            held = (ROOT / "tests" / path).read_text() if (ROOT / "tests" / path).is_file() else None
            if held is None or (name and f"def {name}(" not in held):
                wrong.append(f"{mutation.file}: {mutation.what}: there is no test {test}")
    return wrong


def copied(source: Path, target: Path) -> Path:
    """A copy of what the tests need. It keeps the times of files, so that compiled functions stay valid."""
    for name in ("src", "tests"):
        shutil.copytree(source / name, target / name)
    shutil.copy2(source / "pyproject.toml", target / "pyproject.toml")
    return target


def pytest(
    copy: Path, tests: Sequence[str], numba_cache: Path | None = None, limit: float | None = None
) -> subprocess.CompletedProcess[str]:
    """Run tests of a copy against the source of the same copy."""
    threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
    settings = {"PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1", **threads}
    if numba_cache is not None:
        settings["NUMBA_CACHE_DIR"] = str(numba_cache)
    flags = ("-x", "-q", "-rf", "--no-header", "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", *flags, *(f"tests/{test}" for test in tests)]
    return subprocess.run(
        command, cwd=copy, env=os.environ | settings, capture_output=True, text=True, timeout=limit, check=False
    )


def outcome(mutation: Mutation, copy: Path) -> Outcome:
    """Break the copy, run the tests, and mend it."""
    place = copy / SOURCE / mutation.file
    whole, times = place.read_text(), place.stat()
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as empty:
        place.write_text(whole.replace(mutation.find, mutation.replace))
        try:
            done = pytest(copy, mutation.tests.split(), Path(empty) if "numba" in whole else None, LIMIT)
            output, status = done.stdout + done.stderr, done.returncode
        except subprocess.TimeoutExpired:
            output, status = f"no answer in {LIMIT} s", -1
        finally:
            place.write_text(whole)
            os.utime(place, ns=(times.st_atime_ns, times.st_mtime_ns))
    # Status 1 and a failed test: an error while tests are collected shows only that the break is no program.
    failed = re.search(r"^FAILED tests/(\S+)", output, re.MULTILINE) if status == 1 else None
    return Outcome(mutation, failed[1] if failed else "", time.perf_counter() - start, output)


def outcomes(mutations: Sequence[Mutation], workers: int) -> list[Outcome]:
    """The outcome of each mutation. Every worker has a copy of its own."""
    with tempfile.TemporaryDirectory(prefix="longtail-mutations-") as folder:
        first = copied(ROOT, Path(folder) / "0")
        where = "import longtail; print(longtail.__file__)"
        found = subprocess.run(
            [sys.executable, "-c", where],
            env=os.environ | {"PYTHONPATH": str(first / "src")},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        if not Path(found.strip()).is_relative_to(first):
            sys.exit(f"the tests would import {found.strip()}, not the copy in {first}")
        whole = pytest(first, sorted({test for mutation in mutations for test in mutation.tests.split()}))
        if whole.returncode:
            sys.exit(f"the tests fail without any break:\n{whole.stdout}{whole.stderr}")
        copies: Queue[Path] = Queue()
        copies.put(first)
        for number in range(1, workers):
            copies.put(copied(first, Path(folder) / str(number)))  # with what the first one compiled

        def work(mutation: Mutation) -> Outcome:
            copy = copies.get()
            try:
                done = outcome(mutation, copy)
            finally:
                copies.put(copy)
            print(f"{'caught' if done.caught_by else 'SURVIVES'}: {mutation.what}", file=sys.stderr)
            return done

        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(work, mutations))


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("--only", metavar="PATTERN", help="only breaks whose file, words or code contain this text")
    parser.add_argument("--workers", type=int, default=2, help="breaks that are tested at the same time (default 2)")
    parser.add_argument("--list", action="store_true", help="print the breaks and their tests, and run nothing")
    given = parser.parse_args()
    chosen = [
        one
        for one in MUTATIONS
        if given.only is None or any(given.only in text for text in (one.file, one.what, one.find, one.replace))
    ]
    if not chosen:
        sys.exit(f"no break contains {given.only!r}; --list prints all of them")
    if wrong := moved(chosen):
        sys.exit("\n".join(["the source or its tests have moved; change MUTATIONS:", *wrong]))
    if given.list:
        print(table(["file", "break", "tests"], [[one.file, one.what, one.tests] for one in chosen], 3))
        return
    start = time.perf_counter()
    found = outcomes(chosen, max(given.workers, 1))
    rows = [
        [one.mutation.file, one.mutation.what, one.caught_by or "**nothing**", f"{one.seconds:.1f}"] for one in found
    ]
    print(table(["file", "break", "caught by", "seconds"], rows, 3))
    survivors = [one for one in found if not one.caught_by]
    for one in survivors:
        print(f"\n{one.mutation.file}: {one.mutation.what}\n{one.output[-1500:]}", file=sys.stderr)
    print(f"\n{len(found) - len(survivors)} of {len(found)} breaks are caught, in {time.perf_counter() - start:.0f} s")
    sys.exit(1 if survivors else 0)


if __name__ == "__main__":
    main()
