"""Nearest-neighbour search: the k vectors with the largest inner product for each query.

Start reading at `exact.py`. Files:

- `exact.py`: compares each query with every vector, in pieces that fit the cache (NumPy, Numba; torch for bf16)
- `device.py`: the same search on a GPU through torch, with the same tie-breaking
- `select.py`: keeps the k largest scores of a stream, in Numba
- `blas_threads.py`: limits NumPy's matrix products to one thread while our own threads run
- `approximate.py`: HNSW and IVF indexes of faiss, with their measured recall
- `choose.py`: estimates whether exact or approximate search costs less, and gives the reason in a sentence
- `database.py`: label vectors in PostgreSQL with pgvector
- `soft.py`: neighbours as soft targets, for distillation (`nn/distill`)

May import `progress`, `threads`, `memory`, `selection`, `arrays` and `errors`: no data sets, no models.
"""
