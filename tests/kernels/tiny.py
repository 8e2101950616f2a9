"""A library in miniature; and a compiler in miniature: for the tests of how one is built."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from normkit.kernels.cpu.sources import Sources

# Without torch's headers, which take seconds to read: what they declare is written out here.
BINDING = """
#include <cstddef>
#include <cstdint>
extern "C" {
int aoti_torch_library_init_fragment(const char*, const char*, uint32_t, void**);
int aoti_torch_library_init_impl(const char*, const char*, const char*, uint32_t, void**);
int aoti_torch_library_def(void*, const char*);
int torch_library_impl(void*, const char*, void (*)(uint64_t*, uint64_t, uint64_t), uint64_t);
int torch_new_string_handle(const char*, size_t, void**);
extern const int tiny_baseline;
}
static void isa(uint64_t* stack, uint64_t, uint64_t) {
  void* text = nullptr;
  torch_new_string_handle("tiny", 4, &text);
  stack[0] = reinterpret_cast<uint64_t>(text);
}
static int registered = [] {
  void *schema = nullptr, *entry = nullptr;
  aoti_torch_library_init_fragment("normkit_cpu", __FILE__, __LINE__, &schema);
  aoti_torch_library_def(schema, "isa() -> str");
  aoti_torch_library_init_impl("normkit_cpu", "CompositeExplicitAutograd", __FILE__, __LINE__,
                               &entry);
  return torch_library_impl(entry, "isa", isa, TORCH_TARGET_VERSION) + tiny_baseline;
}();
"""
COMPUTE = """
#include "../common/tiny.h"
#define NAME_(isa) tiny_##isa
#define NAME(isa) NAME_(isa)
extern "C" const int NAME(NORMKIT_ISA);
const int NAME(NORMKIT_ISA) = kTiny;
"""
FILES = {
    "bindings/tiny.cpp": BINDING,
    "common/tiny.h": "constexpr int kTiny = 0;\n",
    "compute/tiny.cpp": COMPUTE,
}


def write_sources(folder: Path) -> Sources:
    """Write the sources."""
    for name, text in FILES.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return Sources(folder=folder)


FAKE = """#!/bin/sh
echo "$*" >>"{calls}"
[ "$1" = --version ] && echo "fake compiler 1.0" && exit 0
target=/dev/null
for word; do [ "$last" = -o ] && target=$word; last=$word; done
{before}
[ "$target" = /dev/null ] || echo "made by $$" >"$target"
"""


@dataclass(frozen=True)
class FakeCompiler:
    """A script that notes how it is called and writes a file in no time."""

    folder: Path

    @property
    def file(self) -> Path:
        """The script."""
        return self.folder / "compiler"

    def write(self, before: str = "") -> None:
        """Make the script; ``before`` is what it does before it writes ``$target``."""
        text = FAKE.format(calls=self.folder / "calls", before=before)
        self.file.write_text(text, encoding="utf-8")
        self.file.chmod(0o755)

    def targets(self) -> list[str]:
        """The names of the files that were asked for, in order."""
        calls = self.folder / "calls"
        lines = calls.read_text(encoding="utf-8").splitlines() if calls.exists() else []
        found = [line.split("-o ")[1].split()[0] for line in lines if "-o " in line]
        return [Path(name).name for name in found if name != "/dev/null"]
