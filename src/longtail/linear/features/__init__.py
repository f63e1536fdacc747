"""Examples as sparse vectors, and what is done with such vectors alone.

- `tfidf_settings`: the settings that all learners over words share. `sparse_features`: texts and feature files to
  unit-norm vectors.
- `word_counts`: vocabulary and counts; `text_terms`, `word_table`: the kernels under it; `word_count_jobs`: counts in
  jobs.
- `word_forms`: stems, lemmas, n-grams and parts of compounds instead of words; `languages`: which stemmer a text needs.
- `sparse_top`: the k largest entries of each row of a sparse product.
- `label_means`: distance of examples to the mean of a label's examples (PfastreXML's tail scorer).
- `mixed_examples`, `noise`, `word_synonyms`: texts and features for augmentation; `added_rows_plan`: what added
  examples cost.

Imports `linear.csr_arrays` and `linear.solvers.numba_compile`. Start reading at `sparse_features`.
"""
