# make demo   compare five recipes on WordNet and write a report
# make test   run every test, and those of the kernels with every index checked
# make docs   build the site into build/docs
# Both set up a virtual environment in .venv first, and only when it is out of date. The demo needs the package alone.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
ALONE  := $(VENV)/.installed-alone
# Two workers on two cores; numba and the BLAS stay at one thread each inside a worker. Each begins with a half of the
# tests and takes over from the other at the end, so that what a file prepares for its tests is mostly made once.
WORKERS ?= auto
# Bytecode is kept, whatever the environment says of it: each worker, and every process that a test starts, would compile
# the same files again.
PYTEST  := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 \
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -q

.PHONY: demo test docs lint types install clean

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,data,nn,search,serve]'
	@touch $@

# The kernels of the demo are compiled here, once, and kept on disk.
$(ALONE): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[fuse]'
	$(BIN)/python -m longtail.warmup "parabel + gandalf + ranknet" 'fuse("parabel + gandalf", "knn", "bm25", "centroid")'
	@touch $@

demo: $(ALONE)
	$(BIN)/longtail compare wordnet "parabel" "parabel + rerank" "parabel + gandalf" "parabel + gandalf + ranknet" \
		'fuse("parabel + gandalf", "knn", "bm25", "centroid")' --report demo/report.html

# The kernels once more, with every index checked. Checked code has a cache of its own: it must not replace the other.
KERNELS := tests/linear tests/metrics tests/search/test_exact.py tests/search/test_soft.py tests/test_selection.py \
	tests/tail/test_tail_ranknet.py tests/tail/test_tail_centroid.py tests/tail/test_tail_sparserank.py \
	tests/tail/test_tail_broader.py tests/nn/test_hashed.py tests/nn/test_clusters.py \
	tests/data/test_wikipedia_sql.py tests/data/builders/test_prefixes.py tests/data/builders/test_seealso.py

test: $(STAMP)
	$(PYTEST)
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(abspath $(VENV))/numba-boundscheck $(PYTEST) -p no:schemathesis $(KERNELS)

# Not --quiet: what is not said is not counted as a warning, and --strict lets it pass.
docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

clean:
	rm -rf $(VENV) demo build dist .pytest_cache .mypy_cache .ruff_cache
