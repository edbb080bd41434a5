#!/usr/bin/env bash
# gtransformer prepare, set up first if need be: scripts/prepare.sh RAW OUT [options]
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

ensure_setup
run_python -m gtransformer prepare "$@"
