#!/usr/bin/env bash
# Consistency of terms: scripts/terms.sh --source test.en --reference test.de --hypotheses FILE ... [options]
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

ensure_setup
run_python -m gtransformer.cli.terms "$@"
