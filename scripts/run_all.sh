#!/usr/bin/env bash
# Prepare, train and test on TED, News and Europarl: scripts/run_all.sh NAME [DIR], NAME as in scripts/run_NAME.sh
# First scripts/get_{ted,news,europarl}.sh. --print prints all commands; neither data nor GPU is needed.
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

name="${1:-}" dir="${2:-runs/scripts}"
[[ "$dir" != --print ]] || dir=runs/scripts
[[ -f "$ROOT/scripts/run_$name.sh" ]] || fail "usage: scripts/run_all.sh randinit|finetune|mbart|... [DIR] [--print]"
for dataset in ted news europarl; do
    for mode in prepare train test; do
        bash "$ROOT/scripts/run_$name.sh" "$dataset" "$mode" "$dir" $PRINT
    done
done
