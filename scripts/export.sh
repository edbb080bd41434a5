#!/usr/bin/env bash
# Save a trained model with all that translating needs: scripts/export.sh RUN MODEL [--checkpoint FILE]
# RUN is the directory of a run (runs/RECIPE/CORPUS), or of a prepared corpus; then --checkpoint is needed.
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

ensure_setup
run_python -m gtransformer.cli.export "$@"
