#!/usr/bin/env bash
# The benchmark corpus TED (IWSLT 2017 talks; tests on tst2016-2017): scripts/ted.sh [RECIPE] [STAGE] [options of scripts/run.sh]
# Files, under ${DATA:-data}/ted, fetched by scripts/download.sh ted:
#   concatenated_en2de_{train,dev,test}_{en,de}.txt
set -euo pipefail
recipe=base stage=all
[[ $# -eq 0 || "$1" == -* ]] || { recipe="$1" && shift; }
[[ $# -eq 0 || "$1" == -* ]] || { stage="$1" && shift; }
exec bash "$(dirname "${BASH_SOURCE[0]}")/run.sh" "$recipe" ted "$stage" "$@"
