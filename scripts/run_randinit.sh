#!/usr/bin/env bash
# G-Transformer, randomly initialised (Bao et al. 2021):
# scripts/run_randinit.sh DATASET prepare|train|test DIR
# The settings are those of configs/base.yaml, for four GPUs;
# on other GPUs the updates are as large.
# --print prints the commands.
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

(($# >= 3)) || fail "usage: scripts/run_randinit.sh DATASET prepare|train|test DIR [--print]"
dataset="$1" mode="$2" dir="$3/$1"
[[ -n "$PRINT" ]] || ensure_setup
export PATH="$VENV/bin:$PATH"

case "$mode" in
    prepare)
        bash "$ROOT/scripts/prepare.sh" "$dataset" "$3" $PRINT
        ;;
    train)
        run "fairseq-train '$dir/bin' --user-dir '$ROOT/gtransformer' \
            --save-dir '$dir/randinit' --tensorboard-logdir '$dir/randinit' \
            --task translation_doc --source-lang en --target-lang de --langs en,de --doc-mode partial \
            --decoder-start bos --arch gtransformer_base --encoder-ctxlayers 2 --decoder-ctxlayers 2 \
            --cross-ctxlayers 2 --share-all-embeddings --dropout 0.3 --doc-noise-mask 0.3 --doc-noise-epochs 30 \
            --criterion fused_label_smoothed_cross_entropy --label-smoothing 0.1 --optimizer fused_adam \
            --adam-betas '(0.9, 0.98)' --lr 5e-4 --lr-scheduler inverse_sqrt --warmup-updates 4000 \
            --warmup-init-lr 1e-7 --max-tokens 4096 --update-freq 1 --patience 10 --fp16 --seed 1 --num-workers 2 \
            --no-epoch-checkpoints --log-interval 50 --distributed-world-size 4"
        ;;
    test)
        run "fairseq-generate '$dir/bin' --user-dir '$ROOT/gtransformer' \
            --path '$dir/randinit/checkpoint_best.pt' --gen-output '$dir/randinit/test' \
            --gen-subset test --task translation_doc --source-lang en --target-lang de --langs en,de \
            --doc-mode partial --decoder-start bos --beam 5 --lenpen 1.0 --max-len-a 1.2 --max-len-b 10 \
            --batch-size 16 --tokenizer moses --remove-bpe --sacrebleu --quiet --fp16"
        ;;
    *) fail "unknown mode $mode: prepare, train or test" ;;
esac
