#!/usr/bin/env bash
# All that has to be seen on a GPU, in parts that are recorded one by one: scripts/gpu_check.sh [PART ...] [options]
#
#   scripts/gpu_check.sh pack FOLDER   on a machine with network: what the other one lacks, in a folder; --help: options
#   GPU_PACK=FOLDER   on a machine with its own Python and PyTorch and without network: use that Python and this folder,
#                     with the folder's corpus where there is one
#   PYTHON=...        that Python (default: python3)
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

if [[ -z "${GPU_PACK:-}" ]]; then
    ensure_setup
    run_python -m gtransformer.lab.cli.gpu_check "$@"
fi

[[ -d "$GPU_PACK/wheels" ]] || fail "GPU_PACK=$GPU_PACK: holds no wheels; make it with scripts/gpu_check.sh pack $GPU_PACK"
PYTHON="${WANTED_PYTHON:-python3}"
# Beside the machine's own packages, for these runs alone.
GPU_PACK="$(cd "$GPU_PACK" && pwd)"
site="$GPU_PACK/site"
if [[ ! -f "$site/complete" ]]; then
    mkdir -p "$site"
    "$PYTHON" -m pip install -q --no-index --no-deps --no-compile --upgrade --target "$site" "$GPU_PACK"/wheels/*.whl ||
        fail "the wheels of $GPU_PACK do not fit $("$PYTHON" --version); make them anew with scripts/gpu_check.sh pack --python"
    touch "$site/complete"
fi
export PYTHONPATH="$site${PYTHONPATH:+:$PYTHONPATH}"
data=()
if [[ " $* " != *" --corpus"* && " $* " != *" --prepared"* ]]; then
    if [[ -d "$GPU_PACK/corpus" ]]; then data+=(--corpus "$GPU_PACK/corpus"); fi
    if [[ -f "$GPU_PACK/prepared.tar.xz" ]]; then data+=(--prepared "$GPU_PACK/prepared.tar.xz"); fi
fi
run_python -m gtransformer.lab.cli.gpu_check "$@" "${data[@]}"
