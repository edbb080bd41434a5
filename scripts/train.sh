#!/usr/bin/env bash
# Train a G-Transformer of base size from random weights with the flags of recipe base (Bao et al. 2021, four GPUs):
# scripts/train.sh PREPARED/bin --save-dir DIR [options for fairseq-train]
#
# On one GPU add --update-freq 4, which keeps the size of an update. fairseq takes the last one of repeated options.
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

(($# >= 1)) || fail "usage: scripts/train.sh PREPARED/bin --save-dir DIR [options for fairseq-train]"
ensure_setup
exec "$VENV/bin/fairseq-train" "$1" --user-dir "$ROOT/gtransformer" \
    --task translation_doc --source-lang en --target-lang de --langs en,de --doc-mode partial --decoder-start bos \
    --arch gtransformer_base --encoder-ctxlayers 2 --decoder-ctxlayers 2 --cross-ctxlayers 2 --share-all-embeddings \
    --dropout 0.3 --doc-noise-mask 0.3 --doc-noise-epochs 30 \
    --criterion fused_label_smoothed_cross_entropy --label-smoothing 0.1 \
    --optimizer fused_adam --adam-betas '(0.9, 0.98)' --lr 5e-4 \
    --lr-scheduler inverse_sqrt --warmup-updates 4000 --warmup-init-lr 1e-7 \
    --max-tokens 4096 --update-freq 1 --patience 10 --fp16 --seed 1 --num-workers 2 \
    --no-epoch-checkpoints --log-interval 50 "${@:2}"
