"""Small Perl scripts with the interface of Moses' ones, which refuse options that they do not expect."""

from __future__ import annotations

from pathlib import Path

from gtransformer.preprocess.tokenise import SCRIPTS

HEAD = "use utf8; use strict; use open qw(:std :utf8); $| = 1; my %o; my $a = join(' ', @ARGV);\n"
BODY = {
    "tokenizer.perl": r"""die "options $a" unless $a =~ /^-q -no-escape -l (en|de)$/;
        while (<STDIN>) { s/([.,!?„“])/ $1 /g; print; }""",
    "detokenizer.perl": r"""die "options $a" unless $a =~ /^-q -l (en|de)$/;
        while (<STDIN>) { s/ ([.,!?])/$1/g; print; }""",
    "normalize-punctuation.perl": r"""die unless $a =~ /^-l (en|de)$/; while (<STDIN>) { s/[„“]/"/g; print; }""",
    "train-truecaser.perl": r"""die unless $a =~ /^--model (\S+) --corpus (\S+)$/; my ($m, $c) = ($1, $2); my %n;
        open(C, "<", $c); while (<C>) { my @w = split; shift @w; $n{$_}++ for @w; }
        open(M, ">", $m); print M "$_ ($n{$_}/$n{$_})\n" for keys %n; close M;""",
    "truecase.perl": r"""die unless $a =~ /^--model (\S+)$/; my %b; open(M, "<", $1);
        while (<M>) { my ($w) = split; $b{lc $w} = $w; }
        while (<STDIN>) { print join(" ", map { $b{lc $_} // $_ } split), " \n"; }""",
    "detruecase.perl": r"""while (<STDIN>) { print ucfirst; }""",
}


def write_scripts(root: Path) -> str:
    """Write the scripts where a checkout of Moses at ``root`` has them; returns ``root``."""
    for name, folder in SCRIPTS.items():
        path = root / "scripts" / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(HEAD + BODY[name])
    return str(root)
