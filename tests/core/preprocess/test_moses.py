"""The Perl scripts of Moses behind the same interface.

Moses itself is run where the variable MOSES names one. Elsewhere small Perl scripts with its interface show that the
right script is called with the right options and that its output arrives.
"""

from __future__ import annotations

import os
import shutil

import pytest

from gtransformer.errors import UserError
from gtransformer.preprocess.chain import postprocessor_for
from gtransformer.preprocess.tokenise import Detokeniser, Tokeniser, run_script, script_path
from gtransformer.preprocess.truecase import Truecaser, detruecase, train_truecaser
from tests.core.preprocess.perl_scripts import write_scripts

pytestmark = pytest.mark.skipif(shutil.which("perl") is None, reason="Perl is not installed")


@pytest.fixture
def moses(tmp_path):
    return write_scripts(tmp_path / "moses")


def test_tokenise(moses):
    assert Tokeniser("de", moses)(["Ja, „über“ x.", "", "Nein!"]) == ["Ja , „ über “ x .", "", "Nein !"]
    assert Tokeniser("de", moses, normalise=True)(["„Ja“"]) == ['"Ja"']
    assert Detokeniser("de", moses)(["Ja , ü ."]) == ["Ja, ü."]


def test_truecase(moses, write, tmp_path):
    corpus = write("corpus", "<d>\nWir sehen die Übung\nSo ist es\n")
    train_truecaser(corpus, tmp_path / "model", moses)
    lines = (tmp_path / "model").read_text().splitlines()
    assert lines == sorted(lines) and "Übung (1/1)" in lines and len(lines) == 5
    assert Truecaser(tmp_path / "model", moses)(["Die übung", ""]) == ["die Übung", ""]
    assert detruecase(["die Übung"], moses) == ["Die Übung"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus", "model", "moses"]


def test_postprocessing_by_the_variable(moses, monkeypatch, tmp_path):
    monkeypatch.setenv("MOSES", moses)
    assert postprocessor_for(tmp_path, "de").plain_lines(["die Üb@@ ung ."]) == ["Die Übung."]


def test_not_there(tmp_path):
    with pytest.raises(UserError, match="scripts/tokenizer/tokenizer.perl"):
        Tokeniser("de", str(tmp_path))(["x"])


def test_script_that_fails_or_loses_lines(moses):
    path = script_path(moses, "detruecase.perl")
    path.write_text("die 'out of order';")
    with pytest.raises(UserError, match="detruecase.perl"):
        detruecase(["x"], moses)
    path.write_text("<STDIN>; while (<STDIN>) { print; }")
    with pytest.raises(UserError, match="detruecase.perl"):
        detruecase(["x", "y"], moses)


def test_the_real_scripts():
    root = os.environ.get("MOSES")
    if not root:
        pytest.skip("the variable MOSES does not name a Moses directory")
    tokens = Tokeniser("de", root)(["„Das ist gut“, sagte z. B. Frau Müller (33)."])
    assert tokens == ["„ Das ist gut “ , sagte z. B. Frau Müller ( 33 ) ."]
    assert Tokeniser("de", root)(["A [de] <mask>"]) == ["A [ de ] < mask >"]
    assert Detokeniser("en", root)(["It 's new , ( he ) said ."]) == ["It's new, (he) said."]
    assert run_script(root, "normalize-punctuation.perl", ["-l", "de"], ["„x“"]) == ['"x"']
