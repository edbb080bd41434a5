#!/usr/bin/env bash
# The Document Transformer in two steps (Zhang et al. 2018):
# scripts/run_document_transformer.sh DATASET prepare|train|test DIR
# The settings are those of configs/document/base.yaml, for four GPUs;
# on other GPUs the updates are as large.
# --print prints the commands.
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

(($# >= 3)) || fail "usage: scripts/run_document_transformer.sh DATASET prepare|train|test DIR [--print]"
dataset="$1" mode="$2" dir="$3/$1"
[[ -n "$PRINT" ]] || ensure_setup
export PATH="$VENV/bin:$PATH"
dir="$dir.document"
raw="${DATA:-$ROOT/data}/$dataset"

case "$mode" in
    prepare)
        run "gtransformer prepare '$raw' '$dir/prepared' \
            --tokeniser moses --vocabulary-size 32000 --max-instance-tokens 512 --max-sentence-tokens 255 --source-lang en \
            --target-lang de --langs en,de"
        ;;
    train)
        # step 1, the sentence Transformer: configs/document/sentences.yaml
        run "fairseq-train '$dir/prepared/bin' --user-dir '$ROOT/gtransformer' \
            --save-dir '$dir/sentences' --tensorboard-logdir '$dir/sentences' \
            --task translation_doc --source-lang en --target-lang de --langs en,de --instances disjoint \
            --context-sentences 0 --decoder-start bos --arch doc_transformer_base --share-all-embeddings \
            --dropout 0.1 --criterion fused_label_smoothed_cross_entropy --label-smoothing 0.1 \
            --optimizer fused_adam --adam-betas '(0.9, 0.98)' --adam-eps 1e-9 --lr 7e-4 --lr-scheduler inverse_sqrt \
            --warmup-updates 4000 --warmup-init-lr 1e-7 --max-tokens 6000 --update-freq 1 --patience 10 --fp16 \
            --seed 1 --num-workers 2 --no-epoch-checkpoints --log-interval 50 --distributed-world-size 4"
        # step 2
        run "fairseq-train '$dir/prepared/bin' --user-dir '$ROOT/gtransformer' \
            --save-dir '$dir/document' --tensorboard-logdir '$dir/document' \
            --finetune-from-model '$dir/sentences/checkpoint_best.pt' \
            --task translation_doc --source-lang en --target-lang de --langs en,de --instances current \
            --context-sentences 2 --decoder-start bos --arch document_transformer_base --share-all-embeddings \
            --dropout 0.1 --criterion fused_label_smoothed_cross_entropy --label-smoothing 0.1 \
            --optimizer fused_adam --adam-betas '(0.9, 0.98)' --adam-eps 1e-9 --lr 7e-5 --lr-scheduler inverse_sqrt \
            --warmup-updates 4000 --warmup-init-lr 1e-7 --max-tokens 6000 --update-freq 3 --patience 10 --seed 1 \
            --num-workers 2 --no-epoch-checkpoints --log-interval 50 --context-layers 1 --context-in both \
            --context-join gate --load-partial --freeze-sentence-parameters --amp --distributed-world-size 4"
        ;;
    test)
        run "fairseq-generate '$dir/prepared/bin' --user-dir '$ROOT/gtransformer' \
            --path '$dir/document/checkpoint_best.pt' --gen-output '$dir/document/test' \
            --gen-subset test --task translation_doc --source-lang en --target-lang de --langs en,de \
            --instances current --context-sentences 2 --decoder-start bos --beam 4 --lenpen 0.6 --max-len-a 1.2 \
            --max-len-b 10 --batch-size 16 --tokenizer moses --remove-bpe --sacrebleu --quiet --fp16"
        ;;
    *) fail "unknown mode $mode: prepare, train or test" ;;
esac
