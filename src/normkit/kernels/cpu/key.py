"""The name that a library is kept under: a hash of all that decides what is in it."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys

from normkit.kernels.cpu.compiler import Compiler
from normkit.kernels.cpu.flags import COMMON, ISAS, STABLE_ABI
from normkit.kernels.cpu.sources import Sources


def machine() -> str:
    """System and architecture: a library runs on no other."""
    return f"{sys.platform}-{platform.machine()}"


def source_key(sources: Sources) -> str:
    """Sources, flags, torch's stable ABI and the machine; not the version of torch, nor compiler.

    The C library counts too: a home folder can be shared by machines with an older one.
    """
    facts = [sources.digest(), COMMON, ISAS, STABLE_ABI, machine(), _c_library()]
    return _hash(facts, 16)


def compiler_key(compiler: Compiler) -> str:
    """The compiler: its command and what it says of itself."""
    return _hash([compiler.words, compiler.identity], 8)


def _c_library() -> str:
    if "CS_GNU_LIBC_VERSION" in getattr(os, "confstr_names", ()):
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    return ""


def _hash(facts: object, length: int) -> str:
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:length]
