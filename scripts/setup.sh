#!/usr/bin/env bash
# Make the virtual environment and install everything. Safe to run again: finished steps are skipped.
#
#   PYTHON=/path/to/python3.12          Python of the environment (3.11 to 3.13)
#   GTRANSFORMER_VENV=DIR               its path (default: .venv in the checkout)
#   GTRANSFORMER_TORCH='torch==2.8.*'   another PyTorch, for example for a GPU with an older driver
#   GTRANSFORMER_CACHE=DIR              folder of the compiled fairseq for further environments
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

RUNTIME="$ROOT/requirements/runtime.txt"
TRAIN="$ROOT/requirements/train.txt"
FAIRSEQ="$(sed -n 's/^\(fairseq-fixed==[^ #]*\).*/\1/p' "$TRAIN")"
CACHE="${GTRANSFORMER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/gtransformer}"
LOG="$VENV/setup.log"

step() { say "set-up [$SECONDS s]: $*"; }

fits() { # a Python of a supported version that can make an environment
    "$1" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' >/dev/null 2>&1
}

choose_python() {
    if [[ -n "$WANTED_PYTHON" ]]; then
        fits "$WANTED_PYTHON" ||
            fail "PYTHON=$WANTED_PYTHON cannot be used: Python 3.11, 3.12 or 3.13 with its venv module is needed"
        printf '%s' "$WANTED_PYTHON"
        return
    fi
    local candidate
    # 3.12 first: fairseq-fixed has a ready wheel for it.
    for candidate in python3.12 python3.11 python3.13 python3 python; do
        if fits "$candidate"; then
            printf '%s' "$candidate"
            return
        fi
    done
    fail "no usable Python found: install Python 3.11, 3.12 or 3.13 with its venv module (Debian, Ubuntu: apt install" \
        "python3-venv, or python3.11-venv where python3 is older), or name one:" \
        "PYTHON=/path/to/python3.12 bash scripts/setup.sh"
}

make_environment() {
    if [[ -e "$VENV" && ! -f "$VENV/pyvenv.cfg" && -n "$(ls -A "$VENV" 2>/dev/null)" ]]; then
        fail "$VENV exists and is not a virtual environment: move it away, or set GTRANSFORMER_VENV to another path"
    fi
    if [[ -f "$VENV/pyvenv.cfg" ]] && fits "$PYTHON" && "$PYTHON" -m pip --version >/dev/null 2>&1; then
        step "going on with $VENV ($("$PYTHON" --version))"
        return
    fi
    local python
    python="$(choose_python)"
    step "making $VENV with $("$python" --version)"
    "$python" -m venv --clear "$VENV" || fail "$python could not make a virtual environment in $VENV"
}

# A pip command with its output in the log; if it fails, the end of the log is shown.
install() {
    printf '\n$ pip %s\n' "$*" >>"$LOG"
    "$PYTHON" -m pip --disable-pip-version-check "$@" >>"$LOG" 2>&1 || stopped "pip $*"
}

# fairseq finds "--user-dir gtransformer" in the working directory, else next to itself, where an editable installation has
# no folder. This makes a folder there that imports the checkout. It is not a link, as a wheel that is installed
# later would be written through a link.
name_for_fairseq() {
    local folder
    folder="$("$PYTHON" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/gtransformer"
    mkdir -p "$folder"
    cat >"$folder/__init__.py" <<PYTHON
"""Loads the checkout's package; made by its scripts/setup.sh, for fairseq's --user-dir gtransformer."""

import sys
from importlib.util import module_from_spec, spec_from_file_location

_FOLDER = "$ROOT/gtransformer"
_SPEC = spec_from_file_location(__name__, f"{_FOLDER}/__init__.py", submodule_search_locations=[_FOLDER])
sys.modules[__name__] = module_from_spec(_SPEC)
_SPEC.loader.exec_module(sys.modules[__name__])
PYTHON
}

stopped() {
    tail -n 15 "$LOG" >&2
    fail "set-up stopped at: $* (the whole log: $LOG); after fixing the cause, bash scripts/setup.sh resumes here"
}

has_package() { # NAME, or NAME==VERSION
    "$PYTHON" - "$1" <<'PYTHON'
import importlib.metadata
import sys

name, _, version = sys.argv[1].partition("==")
try:
    found = importlib.metadata.version(name)
except importlib.metadata.PackageNotFoundError:
    sys.exit(1)
sys.exit(version not in ("", found))
PYTHON
}

torch_requirement() {
    if [[ -n "${GTRANSFORMER_TORCH:-}" ]]; then
        printf '%s' "$GTRANSFORMER_TORCH"
    elif has_gpu; then
        sed -n 's/^\(torch>=[^ #]*\).*/\1/p' "$RUNTIME" # the newest; default builds are for CUDA
    else
        printf 'torch==2.13.0' # an index of CPU builds needs the exact version
    fi
}

# Put a wheel of fairseq into the cache, compiled if there is none for this Python. Four settings make this two and a half
# times faster than a plain pip install: no isolated build with a second PyTorch, one extension per core at a
# time, no debugging symbols, and no optimisation of the extensions that link to PyTorch, which are not used here
# (the Cython ones, which load the data, set -O3 themselves). CUDA_HOME is hidden because it would require an nvcc
# of PyTorch's own version, for kernels that are not used either. ninja is hidden because PyTorch writes the same
# build file for all extensions, which conflicts with parallel builds.
build_fairseq() {
    local build="$WHEELS.$$"
    mkdir -p "$build/hide"
    printf '#!/bin/sh\nexit 1\n' >"$build/hide/ninja"
    chmod +x "$build/hide/ninja"
    printf '[build_ext]\nparallel = %s\n' "$(nproc)" >"$build/build.cfg"
    env -u CUDA_HOME PATH="$build/hide:$PATH" CFLAGS="-g0 -O0" DIST_EXTRA_CONFIG="$build/build.cfg" \
        "$PYTHON" -m pip --disable-pip-version-check wheel --no-cache-dir --no-deps --no-build-isolation \
        -w "$build" "$FAIRSEQ" >"$VENV/fairseq.log" 2>&1 || {
        rm -rf "$build"
        return 1
    }
    rm -rf "$WHEELS"
    mv "$build" "$WHEELS"
}

check_compiler() {
    [[ "$WHEELS" == *cpython-312*x86_64* ]] && return # there is a ready wheel
    command -v c++ >/dev/null || command -v g++ >/dev/null ||
        fail "fairseq has to be compiled for this Python and there is no C++ compiler: install one (Debian, Ubuntu:" \
            "apt install g++), or use Python 3.12 on x86-64, for which fairseq-fixed comes compiled"
    "$PYTHON" -c 'import os, sys, sysconfig
sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' ||
        fail "fairseq has to be compiled for this Python and Python.h is missing: install the development files of" \
            "Python (Debian, Ubuntu: apt install python3-dev), or use Python 3.12 on x86-64"
}

if setup_complete; then
    say "set-up: $VENV is complete"
    exit 0
fi

# The package is installed from its checkout: with a shared environment, one checkout would run the other's commands.
if [[ -f "$VENV/checkout" ]]; then
    other="$(<"$VENV/checkout")"
    if [[ "$other" != "$ROOT" && -d "$other/gtransformer" ]]; then
        fail "$VENV belongs to the checkout $other: set GTRANSFORMER_VENV to another path, or remove $VENV"
    fi
fi

# Two simultaneous set-ups would damage the environment, so the second waits for the first.
if command -v flock >/dev/null; then
    exec 9>"${TMPDIR:-/tmp}/gtransformer-setup-$(printf '%s' "$VENV" | sha256sum | cut -c1-12).lock"
    flock -n 9 || { step "waiting for another set-up of $VENV" && flock 9; }
    if setup_complete; then
        say "set-up: $VENV is complete"
        exit 0
    fi
fi

make_environment
if has_package fairseq; then
    fail "$VENV has the package 'fairseq', which conflicts with fairseq-fixed: $PYTHON -m pip uninstall -y" \
        "fairseq fairseq-fixed, then bash scripts/setup.sh again"
fi

TORCH="$(torch_requirement)"
step "installing $TORCH and the build tools (GPU: $(has_gpu && echo yes || echo no))"
install install -r "$ROOT/requirements/build.txt" "$TORCH"

tag="$("$PYTHON" - <<'PYTHON'
import importlib.metadata
import platform
import sys

print(sys.implementation.cache_tag, platform.machine(), "torch", importlib.metadata.version("torch"), sep="-")
PYTHON
)"
WHEELS="$CACHE/wheels/$tag/$FAIRSEQ"
build=""
if ! has_package "$FAIRSEQ" && ! compgen -G "$WHEELS/fairseq_fixed-*.whl" >/dev/null; then
    check_compiler
    step "building $FAIRSEQ in the background (about a minute, seconds where it comes compiled; $VENV/fairseq.log)"
    build_fairseq &
    build=$!
    trap 'kill "$build" 2>/dev/null || true; rm -rf "$WHEELS".*' EXIT
fi

step "installing the other packages"
cat "$RUNTIME" "$TRAIN" | grep -v '^fairseq-fixed' >"$VENV/others.txt"
install install --no-build-isolation -r "$VENV/others.txt" -r "$ROOT/requirements/dev.txt" "$TORCH"

if ! has_package "$FAIRSEQ"; then
    if [[ -n "$build" ]]; then
        wait "$build" || {
            cat "$VENV/fairseq.log" >>"$LOG"
            stopped "building $FAIRSEQ"
        }
        trap - EXIT
    fi
    step "installing $FAIRSEQ and what it needs"
    install install --no-build-isolation "$WHEELS"/fairseq_fixed-*.whl "$TORCH" -r "$VENV/others.txt"
fi
# The torchaudio that fairseq-fixed asks for fits no newer PyTorch; with it transformers' models cannot be imported, and
# nothing here needs it.
install uninstall --yes torchaudio

step "installing gtransformer (editable)"
printf '%s\n' "$ROOT" >"$VENV/checkout"
install install --no-build-isolation --no-deps -e "$ROOT"
name_for_fairseq

step "checking"
"$PYTHON" - <<'PYTHON' || fail "the environment cannot be used (see above); remove $VENV and run bash scripts/setup.sh again"
import platform

import torch
import fairseq.data.data_utils_fast

device = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
print(f"set-up: Python {platform.python_version()}, PyTorch {torch.__version__}, fairseq {fairseq.__version__}, {device}")
PYTHON
if has_gpu && ! "$PYTHON" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'; then
    say "set-up: WARNING: there is a GPU, but this PyTorch cannot use it: update the driver, or choose a PyTorch for it," \
        "for example GTRANSFORMER_TORCH='torch==2.8.*' bash scripts/setup.sh; until then everything runs on the CPU"
fi

setup_fingerprint >"$VENV/setup.stamp.new"
mv "$VENV/setup.stamp.new" "$VENV/setup.stamp"
step "complete: $VENV"
