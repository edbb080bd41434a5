#!/usr/bin/env bash
# The benchmark corpus News (News Commentary v11; dev newstest2015, test newstest2016): scripts/news.sh [RECIPE] [STAGE] [options of scripts/run.sh]
# Files, under ${DATA:-data}/news, fetched by scripts/download.sh news:
#   concatenated_en2de_{train,dev,test}_{en,de}.txt
set -euo pipefail
recipe=base stage=all
[[ $# -eq 0 || "$1" == -* ]] || { recipe="$1" && shift; }
[[ $# -eq 0 || "$1" == -* ]] || { stage="$1" && shift; }
exec bash "$(dirname "${BASH_SOURCE[0]}")/run.sh" "$recipe" news "$stage" "$@"
