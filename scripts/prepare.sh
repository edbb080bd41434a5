#!/usr/bin/env bash
# Prepare a raw corpus of documents for training: scripts/prepare.sh RAW OUT [options]; --help lists the options.
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

ensure_setup
run_python -m gtransformer.cli.prepare "$@"
