"""Count the kernels of a compiled training update, and the bytes that they move, without a GPU.

    python -m gtransformer.lab.benchmark.kernels [--documents 32] [--tokens 512] [--output FILE]

The graphs are those of a training. Inductor plans them, but nothing is computed: tensors have
shapes alone. It plans for a CPU here, where it fuses much as on a GPU; so these are estimates.
Attention is one kernel forward and one backward. The optimizer's kernels are counted as PyTorch
launches them.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import torch
from functorch.compile import make_boxed_func
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch._inductor import compile_fx
from torch._inductor.debug import DebugContext
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.graph import GraphLowering
from torch._inductor.ir import MultiOutput
from torch._inductor.scheduler import NopKernelSchedulerNode
from torch._inductor.virtualized import V

from gtransformer.lab.benchmark.batches import BASE, model, packed_batch, vocabulary
from gtransformer.models.common.compiled import packed_loss

ADAM_TENSORS, ADAM_BYTES = 4, 7 * 4  # p, g, m, v; read four and write three, in float32
NORM_BYTES, SCALE_BYTES = 4, 8  # of a gradient in float32: read; read and written
CHUNK, BLOCKS = 65536, 320  # elements of a chunk, chunks of a launch in PyTorch's foreach kernels
TENSORS = {1: 110, 4: 36}  # tensors of a launch, by lists of tensors


class Count:
    """What inductor makes of the graphs: kernels by kind, and bytes."""

    def __init__(self):
        self.kernels, self.bytes = Counter(), Counter()

    def compiler(self, part: str) -> Callable:
        """Return a backend for one of the two graphs, whose result has the shapes alone."""

        def compile_graph(graph: torch.fx.GraphModule, inputs: list) -> Callable:
            mode = torch._guards.detect_fake_mode(inputs)
            with V.set_fake_mode(mode):
                compile_fx._recursive_post_grad_passes(graph, is_inference=False)
            self._lower(part, graph, inputs, mode)
            results = [
                node if node is None else node.meta["val"]
                for node in graph.graph.output_node().args[0]
            ]
            return make_boxed_func(lambda *given: [_unset(result) for result in results])

        return compile_graph

    def _lower(self, part: str, graph: torch.fx.GraphModule, inputs: list, mode) -> None:
        lowered = GraphLowering(graph, example_inputs=inputs, is_inference=False)
        handlers = (
            V.set_debug_handler(DebugContext()),
            V.set_graph_handler(lowered),
            V.set_fake_mode(mode),
        )
        with handlers[0], handlers[1], handlers[2]:
            lowered.run(*inputs)
            lowered._update_scheduler()
            for node in lowered.scheduler.nodes:
                if isinstance(node, NopKernelSchedulerNode) or isinstance(node.node, MultiOutput):
                    continue
                kind = _kind(node)
                self.kernels[part, kind] += 1
                self.bytes[part, kind] += node.get_read_write_buffers_sizes()

    def add_optimizer(self, parameters: list[nn.Parameter]) -> None:
        """Add what follows the two graphs: scale, norm and Adam, each over lists of tensors."""
        elements = sum(parameter.numel() for parameter in parameters)
        chunks = sum(-(-parameter.numel() // CHUNK) for parameter in parameters)
        for name, lists, size in (
            ("scale", 1, SCALE_BYTES),
            ("norm", 1, NORM_BYTES),
            ("adam", ADAM_TENSORS, ADAM_BYTES),
        ):
            launches = max(-(-len(parameters) // TENSORS[lists]), -(-chunks // BLOCKS))
            self.kernels["update", name] += launches
            self.bytes["update", name] += size * elements


def _kind(node) -> str:
    if not node.is_extern():
        return "fused"
    operator = getattr(node.node, "op_overload", None) or node.node.python_kernel_name
    return str(operator).removeprefix("extern_kernels.")


def _unset(result):
    """Return a tensor of this shape whose memory is never touched."""
    if not isinstance(result, torch.Tensor):
        return result
    return torch.empty_strided(result.shape, result.stride(), dtype=result.dtype)


def _partition(graph, joint_inputs, **more):
    with V.set_fake_mode(torch._guards.TracingContext.get().fake_mode):
        return compile_fx.partition_fn(graph, joint_inputs, **more)


def count(documents: int, tokens: int, words: int, sizes: tuple[int, ...]) -> dict:
    """Return kernels and bytes of an update on so many documents in bfloat16."""
    torch.manual_seed(1)
    found, symbols = Count(), vocabulary(words)
    trained = model(symbols, sizes, dropout=0.3, autocast="bfloat16")
    batch = packed_batch(documents, tokens, 30, symbols)
    for side in (trained.encoder, trained.decoder):
        side.embed_positions.grow(tokens + 64)
    backend = aot_autograd(
        fw_compiler=found.compiler("forward"),
        bw_compiler=found.compiler("backward"),
        partition_fn=_partition,
        decompositions=select_decomp_table(),
    )
    loss, _ = torch.compile(packed_loss, fullgraph=True, dynamic=False, backend=backend)(
        trained, batch, 0.1
    )
    loss.backward()
    found.add_optimizer([one for one in trained.parameters() if one.requires_grad])
    rows = {
        f"{part}, {kind}": [number, round(found.bytes[part, kind] / 1e9, 2)]
        for (part, kind), number in sorted(found.kernels.items())
    }
    return {
        "tokens": documents * tokens,
        "torch": torch.__version__,
        "kernels": sum(found.kernels.values()),
        "gigabytes": round(sum(found.bytes.values()) / 1e9, 2),
        "kernels and gigabytes by part": rows,
    }


def main() -> None:
    """Print the counts, and write them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--documents", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=512, help="of a document")
    parser.add_argument("--output", type=Path, help="a file for the counts")
    arguments = parser.parse_args()
    found = json.dumps(count(arguments.documents, arguments.tokens, 32000, BASE), indent=1)
    print(found)
    if arguments.output:
        arguments.output.write_text(found + "\n")


if __name__ == "__main__":
    main()
