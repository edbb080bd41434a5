#!/usr/bin/env bash
# Download the TED talks of IWSLT 2017, English to German, as Maruf et al. (2019) split them; test: tst2016-2017.
# scripts/get_ted.sh writes data/ted, or $DATA/ted. Then: scripts/run_randinit.sh ted
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

home=https://raw.githubusercontent.com/sameenmaruf/selective-attn/master/data/IWSLT2017
corpus="${DATA:-$ROOT/data}/ted"
raw="$corpus.download"

ensure_setup
mkdir -p "$raw"
for split in train dev test; do
    for lang in en de; do
        name="concatenated_en2de_${split}_$lang.txt"
        curl --fail --location --retry 4 --output "$raw/$name.part" "$home/$name"
        LC_ALL=C sed 's/[[:space:]]*$//' "$raw/$name.part" >"$raw/$name" # the published files have blanks at line ends
    done
done

# No checksum of the training set is known.
(cd "$raw" && sha256sum --check --strict) <<'END'
862f1caff9d80231d2d0fb2a2604d25744679726ae951c5bd27a31ece51d2a0a  concatenated_en2de_dev_en.txt
06e877db13f27055b77f5880003c34c6d3b3f2a6917b7249a7b8c3f59bce68b6  concatenated_en2de_dev_de.txt
bdf34df81b557c2382c70b5b97df663648c103ea0a0d83a508b3292fed334e91  concatenated_en2de_test_en.txt
4f445fcedd6972295b0a65f026a41240617b886c33880fb25bcafc59d4cb3417  concatenated_en2de_test_de.txt
END

for split in train dev test; do
    (run_python -m gtransformer convert files "$corpus" --overwrite --split "$split" --source-lang en --target-lang de \
        --input "$raw/concatenated_en2de_${split}_en.txt" "$raw/concatenated_en2de_${split}_de.txt")
done
rm -r "$raw"
