#!/usr/bin/env bash
# Before a release: build the source distribution, build the wheel from it, install it into a fresh environment as
# in docs/install.md, and run its commands in a folder outside of the checkout: .ci/check_package.sh [DIST]
# DIST is the folder of the two files (default: dist/ in the checkout).
#
#   PYTHON=/path/to/python3.13          Python to use (default: python3.12)
#   GTRANSFORMER_TORCH='torch==2.8.*'   PyTorch to use (default: torch==2.13.0)
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../scripts/common.sh"

python="${WANTED_PYTHON:-python3.12}"
torch="${GTRANSFORMER_TORCH:-torch==2.13.0}"
mkdir -p "${1:-$ROOT/dist}"
dist="$(cd "${1:-$ROOT/dist}" && pwd)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
unset PYTHONPATH

step() { say "check [$SECONDS s]: $*"; }

install() { # without compiling, as most modules are never imported
    "$work/env/bin/python" -m pip --disable-pip-version-check install --quiet --no-compile "$@"
}

step "an environment with $("$python" --version), $torch and what builds packages"
"$python" -m venv "$work/env" || fail "$python could not make a virtual environment; give another with PYTHON="
install -r "$ROOT/requirements/build.txt" "$torch"

step "source distribution and wheel"
rm -f "$dist"/gtransformer-*
cd "$ROOT"
"$work/env/bin/python" setup.py --quiet egg_info --egg-base "$work" sdist --dist-dir "$dist"
"$work/env/bin/python" -m pip --disable-pip-version-check wheel --quiet --no-deps --no-build-isolation \
    --wheel-dir "$dist" "$dist"/gtransformer-*.tar.gz

wheel="$(echo "$dist"/gtransformer-*.whl)"
step "installing $(basename "$wheel"), without fairseq: it translates"
install "$wheel" "$torch"
echo "Dear Mrs Miller," |
    "$work/env/bin/gtransformer" translate --model "$ROOT/tests/small_model/model" --cpu --quiet >/dev/null

step "installing what training needs"
install --no-build-isolation "$wheel[train]" "$torch"

mkdir "$work/outside"
cd "$work/outside"
step "its commands"
"$work/env/bin/python" -I "$ROOT/.ci/installed.py"
step "all is well: $(basename -a "$dist"/gtransformer-* | xargs)"
