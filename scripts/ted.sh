#!/usr/bin/env bash
# A recipe on IWSLT 2017 talks; tests on tst2016-2017 (Maruf et al. 2019):
# scripts/ted.sh [RECIPE] [STAGE] [options of gtransformer run]; first: scripts/get_ted.sh
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

run_benchmark ted "$@"
