#!/usr/bin/env bash
# gtransformer prepare. Sets up first if needed: scripts/prepare.sh RAW OUT [options]
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

ensure_setup
run_python -m gtransformer prepare "$@"
