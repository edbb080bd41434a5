#!/usr/bin/env bash
# gtransformer train. Sets up first if needed: scripts/train.sh RECIPE CORPUS [options] [-- options for fairseq-train]
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

ensure_setup
run_python -m gtransformer train "$@"
