"""Image ops under the names of `tf.image`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.ops.image.boxes import (
        draw_bounding_boxes as draw_bounding_boxes,
        non_max_suppression as non_max_suppression,
    )
    from aioexec.ops.image.codecs import (
        decode_bmp as decode_bmp,
        decode_gif as decode_gif,
        decode_image as decode_image,
        decode_jpeg as decode_jpeg,
        decode_png as decode_png,
        encode_jpeg as encode_jpeg,
        encode_png as encode_png,
    )
    from aioexec.ops.image.functions import (
        ResizeMethod as ResizeMethod,
        adjust_brightness as adjust_brightness,
        adjust_contrast as adjust_contrast,
        adjust_hue as adjust_hue,
        adjust_saturation as adjust_saturation,
        convert_image_dtype as convert_image_dtype,
        crop_and_resize as crop_and_resize,
        flip_left_right as flip_left_right,
        flip_up_down as flip_up_down,
        grayscale_to_rgb as grayscale_to_rgb,
        hsv_to_rgb as hsv_to_rgb,
        per_image_standardization as per_image_standardization,
        resize_area as resize_area,
        resize_bicubic as resize_bicubic,
        resize_bilinear as resize_bilinear,
        resize_images as resize_images,
        resize_nearest_neighbor as resize_nearest_neighbor,
        rgb_to_grayscale as rgb_to_grayscale,
        rgb_to_hsv as rgb_to_hsv,
    )
    from aioexec.ops.pooling.patches import extract_image_patches as extract_image_patches
else:
    __getattr__, __dir__ = public_names(__name__)
