#!/usr/bin/env bash
# What context brings to the probability of the reference: scripts/cxmi.sh PREPARED --path CHECKPOINT --output JSON [options]
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

ensure_setup
run_python -m gtransformer.lab.cli.cxmi "$@"
