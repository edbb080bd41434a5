#!/usr/bin/env bash
# A recipe on News Commentary v11; dev newstest2015, test newstest2016 (Maruf et al. 2019):
# scripts/news.sh [RECIPE] [STAGE] [options of gtransformer run]; first: gtransformer corpus get news
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

recipe=base stage=all
[[ $# -eq 0 || "$1" == -* ]] || { recipe="$1" && shift; }
[[ $# -eq 0 || "$1" == -* ]] || { stage="$1" && shift; }
ensure_setup
run_python -m gtransformer run "$recipe" news "$stage" "$@"
