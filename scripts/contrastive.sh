#!/usr/bin/env bash
# Contrastive accuracy of a model: scripts/contrastive.sh PREPARED --path CHECKPOINT --items FILE --output JSON [options]
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

ensure_setup
run_python -m gtransformer.cli.contrastive "$@"
