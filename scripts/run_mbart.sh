#!/usr/bin/env bash
# G-Transformer fine-tuned on mBART25 (Bao et al. 2021), whose files are in pretrained/mbart25:
# scripts/run_mbart.sh DATASET prepare|train|test DIR
# The settings are those of configs/mbart.yaml, for four GPUs;
# on other GPUs the updates are as large.
# --print prints the commands.
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

(($# >= 3)) || fail "usage: scripts/run_mbart.sh DATASET prepare|train|test DIR [--print]"
dataset="$1" mode="$2" dir="$3/$1"
[[ -n "$PRINT" ]] || ensure_setup
export PATH="$VENV/bin:$PATH"
dir="$dir.mbart"
raw="${DATA:-$ROOT/data}/$dataset"

case "$mode" in
    prepare)
        run "gtransformer prepare '$raw' '$dir/prepared' \
            --tokeniser moses --vocabulary-size 30000 --max-instance-tokens 512 \
            --sentencepiece pretrained/mbart25/sentence.bpe.model --dictionary pretrained/mbart25/dict.txt \
            --max-sentence-tokens 510 --source-lang en_XX --target-lang de_DE \
            --langs ar_AR,cs_CZ,de_DE,en_XX,es_XX,et_EE,fi_FI,fr_XX,gu_IN,hi_IN,it_IT,ja_XX,kk_KZ,ko_KR,lt_LT,lv_LV,my_MM,ne_NP,nl_XX,ro_RO,ru_RU,si_LK,tr_TR,vi_VN,zh_CN"
        ;;
    train)
        run "fairseq-train '$dir/prepared/bin' --user-dir '$ROOT/gtransformer' \
            --save-dir '$dir/mbart' --tensorboard-logdir '$dir/mbart' \
            --finetune-from-model 'pretrained/mbart25/model.pt' \
            --task translation_doc --source-lang en_XX --target-lang de_DE \
            --langs ar_AR,cs_CZ,de_DE,en_XX,es_XX,et_EE,fi_FI,fr_XX,gu_IN,hi_IN,it_IT,ja_XX,kk_KZ,ko_KR,lt_LT,lv_LV,my_MM,ne_NP,nl_XX,ro_RO,ru_RU,si_LK,tr_TR,vi_VN,zh_CN \
            --doc-mode partial --decoder-start bos --arch gtransformer_large --activation-fn gelu \
            --encoder-normalize-before --decoder-normalize-before --encoder-learned-pos --decoder-learned-pos \
            --layernorm-embedding --share-all-embeddings --encoder-ctxlayers 2 --decoder-ctxlayers 2 \
            --cross-ctxlayers 2 --dropout 0.3 --criterion fused_label_smoothed_cross_entropy --label-smoothing 0.2 \
            --optimizer fused_adam --adam-betas '(0.9, 0.98)' --lr 3e-5 --lr-scheduler polynomial_decay \
            --warmup-updates 2500 --max-tokens 2048 --update-freq 2 --patience 5 --fp16 --seed 1 --num-workers 2 \
            --no-epoch-checkpoints --log-interval 50 --load-partial --adam-eps 1e-6 \
            --total-num-update 40000 --max-update 40000 --attention-dropout 0.1 --distributed-world-size 4"
        ;;
    test)
        run "fairseq-generate '$dir/prepared/bin' --user-dir '$ROOT/gtransformer' \
            --path '$dir/mbart/checkpoint_best.pt' --gen-output '$dir/mbart/test' \
            --gen-subset test --task translation_doc --source-lang en_XX --target-lang de_DE \
            --langs ar_AR,cs_CZ,de_DE,en_XX,es_XX,et_EE,fi_FI,fr_XX,gu_IN,hi_IN,it_IT,ja_XX,kk_KZ,ko_KR,lt_LT,lv_LV,my_MM,ne_NP,nl_XX,ro_RO,ru_RU,si_LK,tr_TR,vi_VN,zh_CN \
            --doc-mode partial --decoder-start bos --beam 5 --lenpen 1.0 --max-len-a 1.2 --max-len-b 10 \
            --batch-size 32 --tokenizer moses --remove-bpe sentencepiece --sacrebleu --quiet --fp16"
        ;;
    *) fail "unknown mode $mode: prepare, train or test" ;;
esac
