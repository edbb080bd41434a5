#!/usr/bin/env bash
# Recipes side by side on one corpus, the same budget of minutes each: scripts/compare.sh CORPUS OUTPUT --recipes A,B,C
# [options]; --help lists them.
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

ensure_setup
run_python -m gtransformer.lab.cli.compare "$@"
