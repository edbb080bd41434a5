# Shared by all scripts; sourced, never run. Sets ROOT, VENV and PYTHON (the environment's) and keeps the working
# directory. A PYTHON given by the user makes the environment; it is stored as WANTED_PYTHON.
#
#   GTRANSFORMER_VENV   path of the virtual environment (default: .venv in the checkout)

ROOT="$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)"
VENV="${GTRANSFORMER_VENV:-$ROOT/.venv}"
VENV="${VENV%/}"
WANTED_PYTHON="${PYTHON:-}"
PYTHON="$VENV/bin/python"

say() { printf '%s\n' "$*"; }

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# Fingerprint of a complete set-up; scripts/setup.sh writes it into the stamp at the end.
setup_fingerprint() {
    {
        cat "$ROOT"/requirements/*.txt "$ROOT/setup.py" "$ROOT/gtransformer/cli/commands.py" "$ROOT/scripts/setup.sh"
        printf '%s\n' "$ROOT" "${GTRANSFORMER_TORCH:-}"
    } | sha256sum | cut -d' ' -f1
}

setup_complete() {
    [[ -x "$PYTHON" && -f "$VENV/setup.stamp" ]] && [[ "$(<"$VENV/setup.stamp")" == "$(setup_fingerprint)" ]]
}

# Set up if needed; takes a fraction of a second otherwise.
ensure_setup() {
    setup_complete || PYTHON="$WANTED_PYTHON" bash "$ROOT/scripts/setup.sh"
}

# Run a command of the package in the environment, from any working directory.
run_python() {
    PYTHONPATH="$ROOT${PYTHONPATH:+:$PYTHONPATH}" exec "$PYTHON" "$@"
}

# A recipe on a benchmark corpus: run_benchmark CORPUS [RECIPE] [STAGE] [options of gtransformer run].
run_benchmark() {
    local corpus="$1" recipe=base stage=all
    shift
    [[ $# -eq 0 || "$1" == -* ]] || { recipe="$1" && shift; }
    [[ $# -eq 0 || "$1" == -* ]] || { stage="$1" && shift; }
    ensure_setup
    run_python -m gtransformer run "$recipe" "$corpus" "$stage" "$@"
}

# Keep freed memory instead of returning it to the system and page-faulting it in again at every training step.
export MALLOC_TRIM_THRESHOLD_="${MALLOC_TRIM_THRESHOLD_:-8589934592}" MALLOC_MMAP_THRESHOLD_="${MALLOC_MMAP_THRESHOLD_:-8589934592}"
