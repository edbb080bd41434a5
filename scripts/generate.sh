#!/usr/bin/env bash
# The stage generate of a recipe. Sets up first if needed.
# scripts/generate.sh RECIPE CORPUS [options] [-- options for fairseq-generate]
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

(($# >= 2)) || fail "usage: scripts/generate.sh RECIPE CORPUS [options] [-- options for fairseq-generate]"
ensure_setup
run_python -m gtransformer run "$1" "$2" generate "${@:3}"
