#!/usr/bin/env bash
# Make the results page exp_logs/README.md from the result files beside it: scripts/report.sh [--check]; --help says more.
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

ensure_setup
run_python -m gtransformer.lab.cli.report "$@"
