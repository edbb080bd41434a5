#!/usr/bin/env bash
# Tests that need a GPU, then a few updates of several systems on it: .ci/gpu_check.sh [OUTPUT]
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../scripts/common.sh"

ensure_setup
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
run_python -m pytest -q -m gpu tests/core
run_python -m gtransformer lab experiment exp_logs/performance/experiment.yaml "${1:-runs/gpu_check}"
