"""Which models can be written as GGUF, and with which numbers. Nothing is imported here."""

from __future__ import annotations

from collections.abc import Mapping

ARCHITECTURES = ("llama", "qwen2", "qwen3")
"""Values of ``model_type`` whose models llama.cpp computes as transformers does."""
BYTES_A_WEIGHT: Mapping[str, float] = {
    "f32": 4.0,
    "f16": 2.0,
    "bf16": 2.0,
    "q8_0": 34 / 32,
    "q5_1": 24 / 32,
    "q5_0": 22 / 32,
    "q4_1": 20 / 32,
    "q4_0": 18 / 32,
}
"""The types of numbers that can be written, with the bytes of a weight."""
TYPES = tuple(BYTES_A_WEIGHT)
BLOCK = 32
"""Weights that are quantized together; a row of another length stays ``f16``."""
ELSEWHERE = (
    *("q2_k", "q2_k_s", "q3_k_s", "q3_k_m", "q3_k_l", "q4_k", "q4_k_s", "q4_k_m"),
    *("q3_k", "q5_k", "q5_k_s", "q5_k_m", "q6_k", "tq1_0", "tq2_0", "mxfp4_moe"),
    *("iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq2_m", "iq3_xxs", "iq3_xs", "iq3_s", "iq3_m"),
    *("iq4_nl", "iq4_xs"),
)
"""Types that llama.cpp's own program ``llama-quantize`` alone can write."""
