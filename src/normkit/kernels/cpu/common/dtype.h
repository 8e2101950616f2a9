// Dtypes of tensors as the kernels see them. Numbers are those of libtorch's ScalarType.
#pragma once
#include <cstdint>
#include <cstring>

#define NORMKIT_BEGIN namespace normkit { namespace NORMKIT_ISA { namespace {
#define NORMKIT_END } } }

// Kept out of line where copies at each call would only cost time to compile.
#define NORMKIT_ONCE __attribute__((noinline))

namespace normkit {

enum class Dtype : int32_t { float16 = 5, float32 = 6, float64 = 7, bfloat16 = 15 };

struct Half { uint16_t bits; };
struct BFloat16 { uint16_t bits; };

}  // namespace normkit
