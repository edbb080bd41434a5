#!/usr/bin/env bash
# gtransformer score. Sets up first if needed: scripts/score.sh PREPARED --hypotheses FILE ... [options]
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

ensure_setup
run_python -m gtransformer score "$@"
