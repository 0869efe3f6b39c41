"""A residual block with its shortcut as two importers must read it: problems of its layers, and which follows which."""

from perfmodel.families.direct_conv2d.problem import Conv2d
from perfmodel.families.pointwise_conv2d.problem import PointwiseConv2d

RESIDUAL_PROBLEMS = {
    "depthwise": Conv2d(
        batch=4,
        in_channels=8,
        out_channels=8,
        height=20,
        width=20,
        filter_height=3,
        filter_width=3,
        stride=2,
        padding=1,
        depthwise=True,
    ),
    "project": PointwiseConv2d(batch=4, in_channels=8, out_channels=16, height=10, width=10),
    "shortcut": Conv2d(
        batch=4, in_channels=8, out_channels=16, height=20, width=20, filter_height=1, filter_width=1, stride=2
    ),
    "add": None,
    "mean": None,
    "head": PointwiseConv2d(batch=4, in_channels=16, out_channels=10, height=1, width=1),
}
RESIDUAL_EDGES = {
    *(("depthwise", "project"), ("project", "add"), ("shortcut", "add")),
    *(("add", "mean"), ("mean", "head")),
}
