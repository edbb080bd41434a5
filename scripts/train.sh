#!/usr/bin/env bash
# One stage of scripts/run.sh: scripts/train.sh RECIPE CORPUS [--option value ...] [-- options for fairseq-train]
set -euo pipefail
((($# >= 2))) || {
    printf 'error: usage: scripts/train.sh RECIPE CORPUS [--option value ...] [-- options for fairseq-train]\n' >&2
    exit 2
}
exec bash "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/run.sh" "$1" "$2" train "${@:3}"
