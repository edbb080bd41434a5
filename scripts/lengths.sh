#!/usr/bin/env bash
# Scores of one model over test lengths: scripts/lengths.sh RECIPE CORPUS OUT --tokens 128 256 512 [options]
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

ensure_setup
run_python -m gtransformer.lab.cli.lengths "$@"
