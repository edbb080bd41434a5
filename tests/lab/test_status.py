"""How far programs are, by their logs."""

from __future__ import annotations

from gtransformer.lab.planner import batch_status, last_line, training_status


def test_what_is_said_of_logs(tmp_path):
    log = tmp_path / "log"
    assert training_status(log, 9) is None and batch_status(log) is None and last_line(log) is None
    log.write_text(
        'x | train_inner | {"ppl": "3.5", "num_updates": "12"}\n{"valid_ppl": "3.25", "valid_num_updates": "12"}\n'
    )
    assert training_status(log, 550) == "12/550 updates, perplexity 3.5, validation 3.25"
    log.write_text("... generate-test:      1 / 3 wps=80.1, wall=4\n... generate-test:      2 / 3 wps=81, wall=8\n")
    assert batch_status(log) == "2/3 batches"
    log.write_text("contrastive items:  10%|#  | 1/10 [00:01<00:09]\rcontrastive items:  20%|#  | 2/10 [00:02<00:08]")
    assert batch_status(log) == "2/10 batches"
    log.write_text("| a: done\r\n| b: done (0.5 s)\n")
    assert last_line(log) == "b: done (0.5 s)"
