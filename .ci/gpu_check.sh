#!/usr/bin/env bash
# Tests, benchmark and a short training on a GPU: .ci/gpu_check.sh [options]; --help lists them.
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../scripts/common.sh"

ensure_setup
run_python -m gtransformer lab gpu-check "$@"
