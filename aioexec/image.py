"""Image ops under the names of `tf.image`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.ops.image.adjustments import (
        adjust_brightness as adjust_brightness,
        adjust_contrast as adjust_contrast,
        adjust_gamma as adjust_gamma,
        adjust_hue as adjust_hue,
        adjust_jpeg_quality as adjust_jpeg_quality,
        adjust_saturation as adjust_saturation,
        random_brightness as random_brightness,
        random_contrast as random_contrast,
        random_hue as random_hue,
        random_jpeg_quality as random_jpeg_quality,
        random_saturation as random_saturation,
    )
    from aioexec.ops.image.box_functions import (
        draw_bounding_boxes as draw_bounding_boxes,
        non_max_suppression as non_max_suppression,
        non_max_suppression_overlaps as non_max_suppression_overlaps,
        non_max_suppression_padded as non_max_suppression_padded,
        non_max_suppression_with_scores as non_max_suppression_with_scores,
    )
    from aioexec.ops.image.codecs import (
        decode_and_crop_jpeg as decode_and_crop_jpeg,
        decode_bmp as decode_bmp,
        decode_gif as decode_gif,
        decode_image as decode_image,
        decode_jpeg as decode_jpeg,
        decode_png as decode_png,
        encode_jpeg as encode_jpeg,
        encode_png as encode_png,
        extract_jpeg_shape as extract_jpeg_shape,
        is_jpeg as is_jpeg,
    )
    from aioexec.ops.image.comparisons import (
        image_gradients as image_gradients,
        psnr as psnr,
        sobel_edges as sobel_edges,
        ssim as ssim,
        ssim_multiscale as ssim_multiscale,
        total_variation as total_variation,
    )
    from aioexec.ops.image.distorted_boxes import (
        sample_distorted_bounding_box as sample_distorted_bounding_box,
    )
    from aioexec.ops.image.flips import (
        flip_left_right as flip_left_right,
        flip_up_down as flip_up_down,
        random_flip_left_right as random_flip_left_right,
        random_flip_up_down as random_flip_up_down,
        rot90 as rot90,
        transpose as transpose,
        transpose as transpose_image,
    )
    from aioexec.ops.image.functions import (
        ResizeMethod as ResizeMethod,
        convert_image_dtype as convert_image_dtype,
        crop_and_resize as crop_and_resize,
        grayscale_to_rgb as grayscale_to_rgb,
        hsv_to_rgb as hsv_to_rgb,
        per_image_standardization as per_image_standardization,
        resize_area as resize_area,
        resize_bicubic as resize_bicubic,
        resize_bilinear as resize_bilinear,
        resize_images as resize,
        resize_images as resize_images,
        resize_nearest_neighbor as resize_nearest_neighbor,
        rgb_to_grayscale as rgb_to_grayscale,
        rgb_to_hsv as rgb_to_hsv,
        rgb_to_yiq as rgb_to_yiq,
        rgb_to_yuv as rgb_to_yuv,
        yiq_to_rgb as yiq_to_rgb,
        yuv_to_rgb as yuv_to_rgb,
    )
    from aioexec.ops.image.glimpses import extract_glimpse as extract_glimpse
    from aioexec.ops.image.random_crops import random_crop as random_crop
    from aioexec.ops.image.sizing import (
        central_crop as central_crop,
        crop_to_bounding_box as crop_to_bounding_box,
        pad_to_bounding_box as pad_to_bounding_box,
        resize_image_with_crop_or_pad as resize_image_with_crop_or_pad,
        resize_image_with_crop_or_pad as resize_with_crop_or_pad,
        resize_image_with_pad as resize_image_with_pad,
    )
    from aioexec.ops.pooling.patches import (
        extract_image_patches as extract_image_patches,
        extract_patches as extract_patches,
    )

    __all__ = [
        "ResizeMethod",
        "adjust_brightness",
        "adjust_contrast",
        "adjust_gamma",
        "adjust_hue",
        "adjust_jpeg_quality",
        "adjust_saturation",
        "central_crop",
        "convert_image_dtype",
        "crop_and_resize",
        "crop_to_bounding_box",
        "decode_and_crop_jpeg",
        "decode_bmp",
        "decode_gif",
        "decode_image",
        "decode_jpeg",
        "decode_png",
        "draw_bounding_boxes",
        "encode_jpeg",
        "encode_png",
        "extract_glimpse",
        "extract_image_patches",
        "extract_jpeg_shape",
        "extract_patches",
        "flip_left_right",
        "flip_up_down",
        "grayscale_to_rgb",
        "hsv_to_rgb",
        "image_gradients",
        "is_jpeg",
        "non_max_suppression",
        "non_max_suppression_overlaps",
        "non_max_suppression_padded",
        "non_max_suppression_with_scores",
        "pad_to_bounding_box",
        "per_image_standardization",
        "psnr",
        "random_brightness",
        "random_contrast",
        "random_crop",
        "random_flip_left_right",
        "random_flip_up_down",
        "random_hue",
        "random_jpeg_quality",
        "random_saturation",
        "resize",
        "resize_area",
        "resize_bicubic",
        "resize_bilinear",
        "resize_image_with_crop_or_pad",
        "resize_image_with_pad",
        "resize_images",
        "resize_nearest_neighbor",
        "resize_with_crop_or_pad",
        "rgb_to_grayscale",
        "rgb_to_hsv",
        "rgb_to_yiq",
        "rgb_to_yuv",
        "rot90",
        "sample_distorted_bounding_box",
        "sobel_edges",
        "ssim",
        "ssim_multiscale",
        "total_variation",
        "transpose",
        "transpose_image",
        "yiq_to_rgb",
        "yuv_to_rgb",
    ]
else:
    __getattr__, __dir__ = public_names(__name__)
