#!/usr/bin/env bash
# Accuracy of what was translated: scripts/generative.sh PREPARED --items FILE --hypotheses X.jsonl --output JSON
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

ensure_setup
run_python -m gtransformer.cli.generative "$@"
