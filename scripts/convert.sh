#!/usr/bin/env bash
# Corpora of other formats into the raw one: scripts/convert.sh ids OUT --split test --source FILE --target FILE --ids FILE
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

ensure_setup
run_python -m gtransformer.cli.convert "$@"
