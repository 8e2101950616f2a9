"""How the library is compiled, and for which instruction sets."""

from __future__ import annotations

import platform
import sys

NAME = "libnormkit_cpu.dylib" if sys.platform == "darwin" else "libnormkit_cpu.so"

# One library serves every torch from 2.10 on: the headers offer no more than that version has.
STABLE_ABI = "0x020a000000000000"
COMMON = (
    *("-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden"),
    # What lets loops be vectorised and changes no value. Never -ffast-math: it lets NaN be ignored
    # and sums be reordered, and at link it makes the whole process flush subnormals to zero.
    *("-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast"),
    f"-DTORCH_TARGET_VERSION={STABLE_ABI}",
)
# From the least to the most: the objects are linked in this order. Of an inline function that two
# objects define, the linker keeps the first, so nothing compiled for a newer processor can end up
# in code that an older one runs.
ISAS: dict[str, tuple[str, ...]] = {
    "baseline": (),
    "avx2": ("-mavx2", "-mfma", "-mf16c"),
    "avx512": ("-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mfma", "-mf16c"),
}


def wanted_isas() -> tuple[str, ...]:
    """The instruction sets to compile for on this architecture."""
    return tuple(ISAS) if platform.machine() in ("x86_64", "AMD64") else ("baseline",)


def isa_flags(isa: str) -> tuple[str, ...]:
    """The flags of a file of ``compute/``."""
    return (*ISAS[isa], f"-DNORMKIT_ISA={isa}")


def binding_flags(isas: tuple[str, ...]) -> tuple[str, ...]:
    """The flags of a file of ``bindings/``, which must know what else is in the library."""
    return tuple(f"-DNORMKIT_HAS_{isa}" for isa in isas)


def link_flags(torch_lib: str) -> tuple[str, ...]:
    """The flags of the last step: torch's own library is found where it is already loaded."""
    if sys.platform == "darwin":
        return ("-dynamiclib", "-undefined", "dynamic_lookup")
    return ("-shared", f"-L{torch_lib}", "-ltorch_cpu")
