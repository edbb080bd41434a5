#!/usr/bin/env bash
# Window attention over documents of up to 1,000 tokens (Herold and Ney 2023):
# scripts/run_window.sh DATASET prepare|train|test DIR
# The settings are those of configs/window/base.yaml, for one GPU.
# --print prints the commands.
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

(($# >= 3)) || fail "usage: scripts/run_window.sh DATASET prepare|train|test DIR [--print]"
dataset="$1" mode="$2" dir="$3/$1"
[[ -n "$PRINT" ]] || ensure_setup
export PATH="$VENV/bin:$PATH"
dir="$dir.concatenation"
raw="${DATA:-$ROOT/data}/$dataset"

case "$mode" in
    prepare)
        run "gtransformer prepare '$raw' '$dir/prepared' \
            --tokeniser moses --vocabulary-size 15000 --max-instance-tokens 1000 --source-lang en \
            --target-lang de --langs en,de"
        ;;
    train)
        run "fairseq-train '$dir/prepared/bin' --user-dir '$ROOT/gtransformer' \
            --save-dir '$dir/window' --tensorboard-logdir '$dir/window' \
            --task translation_doc --source-lang en --target-lang de --langs en,de --instances parts \
            --decoder-start bos --instance-tokens 1000 --arch window_transformer_base --share-all-embeddings \
            --dropout 0.3 --criterion fused_label_smoothed_cross_entropy --label-smoothing 0.2 --optimizer fused_adam \
            --adam-betas '(0.9, 0.98)' --lr 5e-4 --lr-scheduler inverse_sqrt --warmup-updates 4000 \
            --warmup-init-lr 1e-7 --max-tokens 4096 --update-freq 4 --best-checkpoint-metric nll_loss --patience 10 \
            --fp16 --seed 1 --num-workers 2 --no-epoch-checkpoints --log-interval 50 --window 20 \
            --window-positions relative --train-alignment linear --decode-alignment sentence"
        ;;
    test)
        run "fairseq-generate '$dir/prepared/bin' --user-dir '$ROOT/gtransformer' \
            --path '$dir/window/checkpoint_best.pt' --gen-output '$dir/window/test' \
            --gen-subset test --task translation_doc --source-lang en --target-lang de --langs en,de \
            --instances parts --decoder-start bos --instance-tokens 1000 --beam 12 --lenpen 1.0 --max-len-a 1.2 \
            --max-len-b 10 --batch-size 16 --tokenizer moses --remove-bpe --sacrebleu --quiet --fp16 \
            --strategy sequential"
        ;;
    *) fail "unknown mode $mode: prepare, train or test" ;;
esac
