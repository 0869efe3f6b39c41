"""What differs between blocks in shared and local memory: words that the block's threads keep at fixed places."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...ir.instruction import Space
from .classes import BlockClasses, Steps
from .values import FollowedValue, followed

_Place = tuple[Space, int]
_WORD_BYTES = 4


class StoredSteps:
    """Steps of the words that are stored at places which are the same for all lanes and blocks.

    Spilled registers lie so, and what one thread leaves for its block. Followed values that are stored elsewhere become
    plain, and so does what is kept here once anything else touches its space.
    """

    def __init__(self, classes: BlockClasses | None) -> None:
        self._classes = classes
        self._words: dict[_Place, tuple[np.dtype[Any], Steps]] = {}

    def forget(self, space: Space) -> None:
        """Make all that is kept of a space plain, because an access may reach it in another way."""
        for place in [place for place in self._words if place[0] is space]:
            assert self._classes is not None
            self._classes.stay_equal(self._words.pop(place)[1], 0, everywhere=True)

    def plain(self, space: Space, plan: Any, offset: int, width: int, elements: tuple[Any, ...]) -> tuple[Any, ...]:
        """The executed blocks' values of what is stored; the steps are kept where they can be."""
        if self._classes is None:
            return elements
        if space not in (Space.SHARED, Space.LOCAL):
            # what a launch both writes and reads to decide by is not followed at all (`BlockClasses.written`)
            return tuple(e.executed() if isinstance(e, FollowedValue) else e for e in elements)
        if plan.base.size > 1 or width != _WORD_BYTES:
            self.forget(space)
            return elements
        return tuple(
            self._keep((space, int(plan.base.flat[0]) + offset + _WORD_BYTES * k), plan.mask, element)
            for k, element in enumerate(elements)
        )

    def _keep(self, place: _Place, mask: NDArray[np.bool_] | None, element: Any) -> Any:
        classes = self._classes
        assert classes is not None
        value = element.resolved() if isinstance(element, FollowedValue) else element
        steps = value.steps if isinstance(value, FollowedValue) else {}
        if steps and place[0] is Space.SHARED:
            # one word for the block: whichever lane's value stays, its shift must be that of all
            steps = {f: c[:, None] for f, c in classes.of_rows(steps, mask)}
        _, before = self._words.get(place, (value.dtype, {}))
        if not steps and not before:
            return value
        here = np.ones((1, 1), np.bool_) if mask is None else mask
        if place[0] is Space.SHARED:
            here = np.logical_or.reduce(here, axis=1, keepdims=True)
        nothing = np.zeros((1, 1), np.int64)
        merged = {f: np.where(here, steps.get(f, nothing), before.get(f, nothing)) for f in {**before, **steps}}
        self._words[place] = (value.dtype, merged)
        return value.lanes if isinstance(value, FollowedValue) else value

    def loaded(self, space: Space, plan: Any, offset: int, width: int, values: list[Any]) -> list[Any]:
        """Values of a load with the steps that were kept with them."""
        if not self._words or space not in (Space.SHARED, Space.LOCAL):
            return values
        assert self._classes is not None
        if plan.base.size > 1 or width != _WORD_BYTES:
            self.forget(space)
            return values
        found = []
        for k, value in enumerate(values):
            dtype, steps = self._words.get(
                (space, int(plan.base.flat[0]) + offset + _WORD_BYTES * k), (value.dtype, {})
            )
            found.append(followed(self._classes, value.view(dtype), steps).view(value.dtype) if steps else value)
        return found
