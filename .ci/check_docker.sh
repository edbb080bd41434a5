#!/usr/bin/env bash
# Check the Dockerfile without Docker's engine: run its lines as a script in a fresh folder, with the
# Python of a fresh environment instead of the image's: .ci/check_docker.sh [DIR]
# DIR is the folder (default: a temporary one, removed at the end).
#
#   PYTHON=/path/to/python3.12          the image's Python (default: python3.12)
#   TORCH=..., TORCH_INDEX=...          arguments of the Dockerfile
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../scripts/common.sh"

python="${WANTED_PYTHON:-python3.12}"
if (($#)); then
    work="$1"
    [[ ! -e "$work" ]] || fail "$work exists already; give a new folder"
    mkdir -p "$work"
    work="$(cd "$work" && pwd)"
else
    work="$(mktemp -d)"
    trap 'rm -rf "$work"' EXIT
fi

wanted="$(sed -n 's/^FROM python:\([0-9.]*\).*/\1/p' "$ROOT/Dockerfile")"
"$python" -c 'import sys; sys.exit(sys.argv[1] != "%d.%d" % sys.version_info[:2])' "$wanted" ||
    fail "$python is not the image's Python $wanted; give one with PYTHON="
"$python" -m venv "$work/python" || fail "$python could not make a virtual environment"
"$python" "$ROOT/.ci/dockerfile.py" "$ROOT/Dockerfile" >"$work/script.sh"
unset PYTHONPATH PYTHON
CONTEXT="$ROOT" FILES="$work/files" PATH="$work/python/bin:$PATH" bash -x "$work/script.sh"
say "all lines of the Dockerfile have run [$SECONDS s]"
