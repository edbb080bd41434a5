#!/usr/bin/env bash
# A recipe on News Commentary v11; dev newstest2015, test newstest2016 (Maruf et al. 2019):
# scripts/news.sh [RECIPE] [STAGE] [options of gtransformer run]; first: scripts/get_news.sh
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

run_benchmark news "$@"
