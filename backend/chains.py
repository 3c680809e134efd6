"""Which ops belong together in one unit: root -> [batch_norm] -> [add] -> [activation].
What only passes its input on, such as dropout in eval mode, may stand between them.

The same function reads a float graph (the quantizer asks what will become a unit) and a Q/DQ graph
(partitioner, preprocess and report ask what is one), so that they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch.fx import Graph, Node

from .arguments import tensor_problem
from .dynamic import computed_argument
from .inplace import in_place_hazards
from .table import Link, OpTable, VpuOp


@dataclass(frozen=True)
class Chain:
    """The float ops of a unit, in execution order.

    Attributes:
        op: the family of the root, `nodes[0]`.
        links: what is fused behind the root.
        clamp: the bounds of the fused activation, in real values.
    """

    op: VpuOp
    nodes: tuple[Node, ...]
    links: dict[Link, Node]
    clamp: tuple[float, float] | None = None

    @property
    def root(self) -> Node:
        return self.nodes[0]

    @property
    def last(self) -> Node:
        return self.nodes[-1]

    @property
    def moves_data(self) -> bool:
        """Whether it computes nothing."""
        return self.op.moves_data(self.root)

    @property
    def residual(self) -> Node | None:
        """The other operand of a fused add."""
        add = self.links.get(Link.ADD)
        if add is None:
            return None
        return next(a for a in add.all_input_nodes if a not in self.nodes)


def find_chains(
    graph: Graph, ops: OpTable, dynamic: bool = False
) -> tuple[dict[Node, Chain], dict[Node, str]]:
    """The chains of a graph, and why the remaining ops of the table are in none.

    Args:
        dynamic: whether sizes that follow from those of the model's inputs may be unknown yet.
    Returns:
        (chains by root, reasons by node). Nodes of no family of `ops` are in neither.
    """
    chains: dict[Node, Chain] = {}
    claimed: set[Node] = set()
    reasons: dict[Node, str] = {}
    hazards = in_place_hazards(graph)

    def try_root(node: Node, op: VpuOp) -> None:
        if node in claimed:
            return
        reason = hazards.get(node) or _problem(node, op, dynamic)
        if reason is not None:
            reasons[node] = reason
            return
        chains[node] = _grow(node, op, follower)
        claimed.update(chains[node].nodes)

    def follower(node: Node) -> tuple[Node, VpuOp] | None:
        """The only reader of a node's value, if it is free to be fused."""
        user = next(iter(node.users)) if len(node.users) == 1 else None
        if user is None or user in claimed or user in hazards:
            return None
        op = ops.of(user)
        return None if op is None or _operand_problem(user, op, dynamic) else (user, op)

    known = [(node, op) for node in graph.nodes if (op := ops.of(node)) is not None]
    # Of two convolutions that meet in an add the later one fuses it, when the other is ready.
    for node, op in reversed(known):
        if Link.ADD in op.links:
            try_root(node, op)
    for node, op in known:
        if Link.ADD not in op.links:
            try_root(node, op)
    return chains, {node: reason for node, reason in reasons.items() if node not in claimed}


def _operand_problem(node: Node, op: VpuOp, dynamic: bool) -> str | None:
    for operand in op.activations(node):
        if problem := tensor_problem(operand, dynamic):
            return f"its input {operand.name} {problem}"
    if problem := tensor_problem(node, dynamic):
        return f"its output {problem}"
    # Only what moves data never computes with its arguments before it is lowered.
    return computed_argument(node, dynamic and op.data_movement)


def _problem(node: Node, op: VpuOp, dynamic: bool) -> str | None:
    try:
        return _operand_problem(node, op, dynamic) or op.check(node)
    except ValueError as error:  # a size that is not known ahead
        return str(error)


_Follower = Callable[[Node], "tuple[Node, VpuOp] | None"]


def _grow(root: Node, op: VpuOp, follower: _Follower) -> Chain:
    nodes, links = [root], {}
    clamp: tuple[float, float] | None = None
    for link in op.links:
        passed: list[Node] = []
        found = follower(nodes[-1])
        while found is not None and found[1].transparent and found[1].check(found[0]) is None:
            passed.append(found[0])
            found = follower(found[0])
        if found is None or found[1].link is not link:
            continue
        node, family = found
        if family.can_follow(node, [*nodes, *passed][-1]):
            nodes += [*passed, node]
            links[link] = node
            clamp = family.clamp(node) if link is Link.ACTIVATION else clamp
    return Chain(op, tuple(nodes), links, clamp)
