# Shared by all scripts; sourced, never run. Sets ROOT, VENV and PYTHON (the environment's) and keeps the working
# directory. A PYTHON given by the user makes the environment; it is stored as WANTED_PYTHON.
#
#   GTRANSFORMER_VENV   path of the virtual environment (default: .venv in the checkout)

ROOT="$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)"
VENV="${GTRANSFORMER_VENV:-$ROOT/.venv}"
VENV="${VENV%/}"
WANTED_PYTHON="${PYTHON:-}"
PYTHON="$VENV/bin/python"

PRINT=""
for word in "$@"; do
    [[ "$word" != --print ]] || PRINT=--print
done

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

has_gpu() { nvidia-smi -L >/dev/null 2>&1; }

# A step of a script: a command line, which is printed where the script was given --print, and otherwise run.
# A training is changed for this machine's GPUs by the rule of recipes; without a GPU it has the paper's setting.
run() {
    local command="$1"
    if [[ "$command" == fairseq-train* && -x "$PYTHON" ]] && has_gpu; then
        command="$(run_python -m gtransformer.run.commands "$command")"
    fi
    say "$command"
    [[ -n "$PRINT" ]] || eval "$command"
}

# Threads that wait for one another sleep: spinning slows a training down many times beside any other busy program.
export OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-PASSIVE}"

# Keep freed memory instead of returning it to the system and page-faulting it in again at every training step.
export MALLOC_TRIM_THRESHOLD_="${MALLOC_TRIM_THRESHOLD_:-8589934592}" MALLOC_MMAP_THRESHOLD_="${MALLOC_MMAP_THRESHOLD_:-8589934592}"
