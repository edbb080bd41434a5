"""What fairseq sees: the task, its data, the systems, the criterion, the optimizers, and patches of
fairseq.
"""

from __future__ import annotations

import fairseq.models  # noqa: F401

from gtransformer.plugin.patches import patch

patch()
