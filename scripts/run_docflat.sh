#!/usr/bin/env bash
# DocFlat D in two stages (Wu et al. 2023):
# scripts/run_docflat.sh DATASET prepare|train|test DIR
# The settings are those of configs/docflat/d.yaml, for one GPU.
# --print prints the commands.
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

(($# >= 3)) || fail "usage: scripts/run_docflat.sh DATASET prepare|train|test DIR [--print]"
dataset="$1" mode="$2" dir="$3/$1"
[[ -n "$PRINT" ]] || ensure_setup
export PATH="$VENV/bin:$PATH"
dir="$dir.docflat"
raw="${DATA:-$ROOT/data}/$dataset"

case "$mode" in
    prepare)
        run "gtransformer prepare '$raw' '$dir/prepared' \
            --tokeniser moses --vocabulary-size 32000 --max-instance-tokens 512 --source-lang en \
            --target-lang de --langs en,de"
        ;;
    train)
        # stage I, the sentence Transformer: configs/docflat/sentences.yaml
        run "fairseq-train '$dir/prepared/bin' --user-dir '$ROOT/gtransformer' \
            --save-dir '$dir/sentences' --tensorboard-logdir '$dir/sentences' \
            --task translation_doc --source-lang en --target-lang de --langs en,de --instances disjoint \
            --context-sentences 0 --decoder-start bos --arch doc_transformer_base --share-all-embeddings \
            --dropout 0.3 --criterion fused_label_smoothed_cross_entropy --label-smoothing 0.1 --optimizer fused_adam \
            --adam-betas '(0.9, 0.98)' --lr 5e-4 --lr-scheduler inverse_sqrt --warmup-updates 4000 \
            --warmup-init-lr 1e-7 --max-tokens 4096 --update-freq 8 --patience 10 --fp16 --seed 1 --num-workers 2 \
            --no-epoch-checkpoints --log-interval 50"
        # stage II; its last five checkpoints are averaged
        run "fairseq-train '$dir/prepared/bin' --user-dir '$ROOT/gtransformer' \
            --save-dir '$dir/docflat' --tensorboard-logdir '$dir/docflat' \
            --finetune-from-model '$dir/sentences/checkpoint_best.pt' \
            --task translation_doc --source-lang en --target-lang de --langs en,de --instances sliding \
            --context-sentences 3 --decoder-start bos --context-loss off --batch-order document --arch docflat_base \
            --share-all-embeddings --dropout 0.3 --criterion fused_label_smoothed_cross_entropy --label-smoothing 0.1 \
            --optimizer fused_adam --adam-betas '(0.9, 0.98)' --lr 2e-4 --lr-scheduler inverse_sqrt \
            --warmup-updates 4000 --warmup-init-lr 1e-7 --max-tokens 4096 --update-freq 8 --patience 10 --fp16 \
            --seed 1 --num-workers 2 --log-interval 50 --load-partial --doc-noise-mask 0.1 --doc-noise-epochs 1000000 \
            --keep-last-epochs 5 --context-gate discrete --gate-threshold 0.5 --batch-attention-in both"
        run "gtransformer average '$dir/docflat' --last 5 --output '$dir/docflat/average.pt'"
        ;;
    test)
        # the first pass, by the sentence Transformer
        run "fairseq-generate '$dir/prepared/bin' --user-dir '$ROOT/gtransformer' \
            --path '$dir/sentences/checkpoint_best.pt' --gen-output '$dir/sentences/test' \
            --gen-subset test --task translation_doc --source-lang en --target-lang de --langs en,de \
            --instances disjoint --context-sentences 0 --decoder-start bos \
            --beam 5 --lenpen 1.0 --max-len-a 1.2 --max-len-b 10 --batch-size 16 --tokenizer moses --remove-bpe \
            --sacrebleu --quiet --fp16"
        run "fairseq-generate '$dir/prepared/bin' --user-dir '$ROOT/gtransformer' \
            --path '$dir/docflat/average.pt' --gen-output '$dir/docflat/test' \
            --first-pass '$dir/sentences/test.jsonl' \
            --gen-subset test --task translation_doc --source-lang en --target-lang de --langs en,de \
            --instances sliding --context-sentences 3 --decoder-start bos --context-loss off --batch-order document \
            --beam 5 --lenpen 1.0 --max-len-a 1.2 --max-len-b 10 --batch-size 16 --tokenizer moses --remove-bpe \
            --sacrebleu --quiet --fp16 --batch-sentences 16"
        ;;
    *) fail "unknown mode $mode: prepare, train or test" ;;
esac
