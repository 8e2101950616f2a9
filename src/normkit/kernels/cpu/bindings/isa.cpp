// Which instruction set runs: the best that the processor has, or the one NORMKIT_CPU_ISA names.
#include <cstdlib>
#include <string>

#include "tensor.h"

#define NORMKIT_TABLE(isa) extern "C" const normkit::Table normkit_table_##isa
NORMKIT_TABLE(baseline);
#ifdef NORMKIT_HAS_avx2
NORMKIT_TABLE(avx2);
#endif
#ifdef NORMKIT_HAS_avx512
NORMKIT_TABLE(avx512);
#endif

namespace normkit {
namespace {

struct Choice {
  std::string name;
  const Table* table;
};

bool wanted(const char* isa) {
  const char* named = std::getenv("NORMKIT_CPU_ISA");
  return named == nullptr || *named == '\0' || std::string(named) == isa;
}

Choice choose() {
#ifdef NORMKIT_HAS_avx512
  if (wanted("avx512") && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
    return {"avx512", &normkit_table_avx512};
  }
#endif
#ifdef NORMKIT_HAS_avx2
  if (wanted("avx2") && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("f16c")) {
    return {"avx2", &normkit_table_avx2};
  }
#endif
  return {"baseline", &normkit_table_baseline};
}

const Choice& chosen() {
  static const Choice choice = choose();
  return choice;
}

std::string isa() { return chosen().name; }

}  // namespace

const Table& table() { return *chosen().table; }

}  // namespace normkit

STABLE_TORCH_LIBRARY_FRAGMENT(normkit_cpu, m) { m.def("isa() -> str"); }

STABLE_TORCH_LIBRARY_IMPL(normkit_cpu, CompositeExplicitAutograd, m) {
  m.impl("isa", TORCH_BOX(&normkit::isa));
}
