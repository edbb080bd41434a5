#!/usr/bin/env bash
# Where a document model starts that begins from a sentence model: scripts/start.sh PREPARED --sentence-model FILE [options]
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

ensure_setup
run_python -m gtransformer.lab.cli.start "$@"
