#!/usr/bin/env bash
# A recipe on Europarl v7; random splits (Maruf et al. 2019):
# scripts/europarl.sh [RECIPE] [STAGE] [options of gtransformer run]; first: gtransformer corpus get europarl
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

recipe=base stage=all
[[ $# -eq 0 || "$1" == -* ]] || { recipe="$1" && shift; }
[[ $# -eq 0 || "$1" == -* ]] || { stage="$1" && shift; }
ensure_setup
run_python -m gtransformer run "$recipe" europarl "$stage" "$@"
