#!/usr/bin/env bash
# Download dev and test set of Europarl v7, English to German, as Maruf et al. (2019) split it, and add the training set.
# Its training set is too large for the authors' repository; ask them for it (see its data/Europarl7/readme.txt).
# scripts/get_europarl.sh TRAIN_EN TRAIN_DE writes data/europarl, or $DATA/europarl. Then: scripts/run_randinit.sh
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

[[ $# -eq 2 ]] || fail "give both sides of the training set: scripts/get_europarl.sh TRAIN_EN TRAIN_DE"
home=https://raw.githubusercontent.com/sameenmaruf/selective-attn/master/data/Europarl7
corpus="${DATA:-$ROOT/data}/europarl"
raw="$corpus.download"

ensure_setup
mkdir -p "$raw"
for split in dev test; do
    for lang in en de; do
        name="concatenated_en2de_${split}_$lang.txt"
        curl --fail --location --retry 4 --output "$raw/$name.part" "$home/$name"
        LC_ALL=C sed 's/[[:space:]]*$//' "$raw/$name.part" >"$raw/$name"
    done
done

# Checksums of the test and the training set are not known.
(cd "$raw" && sha256sum --check --strict) <<'END'
938fde3fccaace0e221e2520dcb11d9b121ca3740308a4c7940692c96955b011  concatenated_en2de_dev_en.txt
d75378d8f8482c4276e3c77be8f8c48e5577c064c05481b1a05cff1db5c5b0aa  concatenated_en2de_dev_de.txt
END

for split in dev test; do
    (run_python -m gtransformer convert files "$corpus" --overwrite --split "$split" --source-lang en --target-lang de \
        --input "$raw/concatenated_en2de_${split}_en.txt" "$raw/concatenated_en2de_${split}_de.txt")
done
(run_python -m gtransformer convert files "$corpus" --overwrite --split train --source-lang en --target-lang de --input "$1" "$2")
rm -r "$raw"
