#!/usr/bin/env bash
# A recipe on a benchmark corpus of Maruf et al. (2019): scripts/corpus.sh {ted,news,europarl} [RECIPE] [STAGE] [options of scripts/run.sh]
# scripts/ted.sh, news.sh and europarl.sh are this with the corpus's name.
#   ted        IWSLT 2017 talks; tests on tst2016-2017
#   news       News Commentary v11; dev newstest2015, test newstest2016
#   europarl   Europarl v7; random splits
# Files, under ${DATA:-data}/NAME, fetched by scripts/download.sh NAME:
#   concatenated_en2de_{train,dev,test}_{en,de}.txt
set -euo pipefail
((($# >= 1))) || {
    printf 'error: usage: scripts/corpus.sh {ted,news,europarl} [RECIPE] [STAGE] [options of scripts/run.sh]\n' >&2
    exit 2
}
corpus="$1" recipe=base stage=all
shift
[[ $# -eq 0 || "$1" == -* ]] || { recipe="$1" && shift; }
[[ $# -eq 0 || "$1" == -* ]] || { stage="$1" && shift; }
exec bash "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/run.sh" "$recipe" "$corpus" "$stage" "$@"
