// Threads: the pool of torch, handed over as a function, so that this code includes nothing of it.
#pragma once
#include <cstdint>
#include <cstdlib>

namespace normkit {

using Task = void (*)(int64_t begin, int64_t end, void* context);
using ParallelFor = void (*)(int64_t begin, int64_t end, int64_t grain, Task task, void* context);

struct Pool {
  ParallelFor run;
  int64_t threads;
};

}  // namespace normkit

#ifdef NORMKIT_ISA
#include "dtype.h"

NORMKIT_BEGIN

// Call body(begin, end) for parts of [0, count) that hold at least `grain` each.
template <class Body>
inline void parallel(const Pool& pool, int64_t count, int64_t grain, const Body& body) {
  if (count <= grain || pool.threads == 1) {
    if (count > 0) body(int64_t(0), count);
    return;
  }
  const Task task = [](int64_t begin, int64_t end, void* context) {
    (*static_cast<const Body*>(context))(begin, end);
  };
  pool.run(0, count, grain, task, const_cast<Body*>(&body));
}

// Uninitialised memory of a call, aligned to a cache line; none for a count of 0.
template <class T>
struct Scratch {
  T* data;

  explicit Scratch(int64_t count)
      : data(count == 0 ? nullptr
                        : static_cast<T*>(
                              std::aligned_alloc(64, (count * sizeof(T) + 64) / 64 * 64))) {
    if (data == nullptr && count != 0) std::abort();
  }
  ~Scratch() { std::free(data); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
};

NORMKIT_END
#endif
