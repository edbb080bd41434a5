#!/usr/bin/env bash
# Run ruff and all tests: scripts/test.sh [pytest options and paths].
#
#   scripts/test.sh --core   only the core's tests, without those of gtransformer/lab
#   scripts/test.sh --fast   for every change, below two minutes: ruff and a selection of all unit
#                            tests (see tests/conftest.py)
#   TEST_WORKERS=N   test processes (default: one for each core, at most 8)
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

ensure_setup
cd "$ROOT"
say "ruff check"
"$PYTHON" -m ruff check .
paths=()
arguments=()
for argument in "$@"; do
    if [[ "$argument" == --core ]]; then paths=(tests/core); else arguments+=("$argument"); fi
done
workers="${TEST_WORKERS:-$(nproc)}"
((workers <= 8)) || workers=8
# One thread per process: the processes share the cores, and sums have the same order on every machine.
export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false
# With many processes freed memory should be returned, not kept (see common.sh).
unset MALLOC_TRIM_THRESHOLD_ MALLOC_MMAP_THRESHOLD_
# loadscope keeps a module's tests in one process, so that a model trained in a fixture is trained once.
exec "$PYTHON" -m pytest -n "$workers" --dist loadscope --no-loadscope-reorder ${paths[@]+"${paths[@]}"} ${arguments[@]+"${arguments[@]}"}
