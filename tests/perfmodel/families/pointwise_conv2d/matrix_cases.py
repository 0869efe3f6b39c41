"""Layers and configurations of designs that multiply matrices, in short."""

from perfmodel.families.pointwise_conv2d import Layout, PointwiseConfiguration, PointwiseConv2d

from ..right_results import warps_on_tensor_cores

OTHERS = dict.fromkeys(("filter_split", "block_width_split", "blocks_per_sm", "channel_lanes"))


def product(filters, positions, filter_threads, position_threads, slices=1, split=1):
    return PointwiseConfiguration(
        layout=Layout.PRODUCT,
        **OTHERS,
        filters_per_thread=filters,
        positions_per_thread=positions,
        filter_threads=filter_threads,
        position_threads=position_threads,
        channel_slices=slices,
        channel_split=split,
    )


def tensor(*sizes, **parts):
    return PointwiseConfiguration(layout=Layout.TENSOR, **OTHERS, **warps_on_tensor_cores(*sizes, **parts))


def layer(batch, in_channels, out_channels, height, width):
    return PointwiseConv2d(batch=batch, in_channels=in_channels, out_channels=out_channels, height=height, width=width)
