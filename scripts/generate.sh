#!/usr/bin/env bash
# One stage of scripts/run.sh: scripts/generate.sh RECIPE CORPUS [--option value ...] [-- options for fairseq-generate]
set -euo pipefail
((($# >= 2))) || {
    printf 'error: usage: scripts/generate.sh RECIPE CORPUS [--option value ...] [-- options for fairseq-generate]\n' >&2
    exit 2
}
exec bash "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/run.sh" "$1" "$2" generate "${@:3}"
