"""Dominators of control-flow graphs, asked about in constant time."""

from __future__ import annotations


class DominatorTree:
    """Immediate dominators, and who dominates whom by the order in which a walk of their tree enters and leaves.

    >>> tree = DominatorTree({1: 0, 2: 1, 3: 1})
    >>> tree.dominates(1, 3), tree.dominates(2, 3)
    (True, False)
    """

    def __init__(self, immediate: dict[int, int]) -> None:
        self.parent = {block: above for block, above in immediate.items() if above is not None and above != block}
        children: dict[int, list[int]] = {}
        for block, above in self.parent.items():
            children.setdefault(above, []).append(block)
        self._entered: dict[int, int] = {}
        self._left: dict[int, int] = {}
        stack = [block for block in {**immediate, **dict.fromkeys(children)} if block not in self.parent]
        while stack:
            block = stack[-1]
            if block in self._entered:
                self._left[block] = len(self._entered)
                stack.pop()
            else:
                self._entered[block] = len(self._entered)
                stack.extend(child for child in children.get(block, ()))

    def dominates(self, above: int, block: int) -> bool:
        """Whether a block lies on every path to another one; true of itself."""
        if above not in self._entered or block not in self._entered:
            return False
        return self._entered[above] <= self._entered[block] < self._left[above]
