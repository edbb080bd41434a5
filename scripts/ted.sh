#!/usr/bin/env bash
# A recipe on IWSLT 2017 talks; tests on tst2016-2017 (Maruf et al. 2019):
# scripts/ted.sh [RECIPE] [STAGE] [options of gtransformer run]; first: gtransformer corpus get ted
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

recipe=base stage=all
[[ $# -eq 0 || "$1" == -* ]] || { recipe="$1" && shift; }
[[ $# -eq 0 || "$1" == -* ]] || { stage="$1" && shift; }
ensure_setup
run_python -m gtransformer run "$recipe" ted "$stage" "$@"
