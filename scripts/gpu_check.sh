#!/usr/bin/env bash
# Tests, benchmark and a short training on a GPU: scripts/gpu_check.sh [options]; --help lists them.
#
#   scripts/gpu_check.sh pack FOLDER   on a machine with network: wheels for one that has Python and PyTorch, but no network
#   GPU_PACK=FOLDER                    on that machine: use its Python (PYTHON, default python3) and this folder
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

if [[ -z "${GPU_PACK:-}" ]]; then
    ensure_setup
    run_python -m gtransformer lab gpu-check "$@"
fi

[[ -d "$GPU_PACK/wheels" ]] || fail "GPU_PACK=$GPU_PACK: no wheels in it; make it with scripts/gpu_check.sh pack $GPU_PACK"
PYTHON="${WANTED_PYTHON:-python3}"
site="$(cd "$GPU_PACK" && pwd)/site" # in addition to the machine's own packages, only for these runs
if [[ ! -f "$site/complete" ]]; then
    mkdir -p "$site"
    "$PYTHON" -m pip install -q --no-index --no-deps --no-compile --upgrade --target "$site" "$GPU_PACK"/wheels/*.whl ||
        fail "the wheels of $GPU_PACK do not fit $("$PYTHON" --version); make them again with --python"
    touch "$site/complete"
fi
export PYTHONPATH="$site${PYTHONPATH:+:$PYTHONPATH}"
run_python -m gtransformer lab gpu-check "$@"
