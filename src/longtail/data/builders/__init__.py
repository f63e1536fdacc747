"""Builders of published data sets from the raw files that their owners distribute.

Start reading at `passages.py`, the shortest; then `work.py`, which all builders share.

    prefixes.py, prefix_*.py, suffix_counts.py       query logs (AOL) as query completion
    clicks.py, click_titles.py                       click logs (ORCAS) as query to document
    passages.py, judgements.py                       MS MARCO, TREC and BEIR collections as passage retrieval
    seealso.py, article_graph.py                     "See also" references as labels
    wiki_dump.py, wikitext.py, manpages.py           what `seealso` reads: an XML dump, or manual pages
    holdout.py                                       labels without training rows, for any data set
    work.py                                          stages that stay on the disk
    buckets.py, keys.py, output.py, requirements.py  lines into bucket files; 64-bit keys; the folder; what is needed

A builder reads its input once, distributes it over bucket files by a hash, and finishes bucket by bucket. So memory
depends on the size of a bucket. May import data, arrays, atomic, errors, memory, progress and threads.
"""
