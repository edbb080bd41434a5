#!/usr/bin/env bash
# A recipe on Europarl v7; random splits (Maruf et al. 2019):
# scripts/europarl.sh [RECIPE] [STAGE] [options of gtransformer run]; first: scripts/get_europarl.sh TRAIN_EN TRAIN_DE
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

run_benchmark europarl "$@"
