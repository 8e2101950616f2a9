// Tensors through libtorch's stable ABI, as the compute code wants them.
#pragma once
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <optional>
#include <tuple>

#include "../common/norm.h"

namespace normkit {

using torch::stable::Tensor;

inline Dtype dtype_of(const Tensor& t) {
  int32_t dtype = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(t.get(), &dtype));
  return Dtype(dtype);
}

inline bool is_half(Dtype dtype) { return dtype == Dtype::float16 || dtype == Dtype::bfloat16; }

// An uninitialised contiguous tensor.
Tensor empty(torch::headeronly::IntHeaderOnlyArrayRef sizes, Dtype dtype);

// Axes that lie in memory as one are merged; returns how many are left, or -1 if over `most`.
int merged(const int64_t* sizes, const int64_t* strides, int64_t count, int64_t* merged_sizes,
           int64_t* merged_strides, int most);

// The tensor with its elements side by side where `rows_of` cannot describe its strides.
struct RowsOf {
  Tensor owner;  // keeps the memory alive
  Rows rows;
  int64_t count, width;
};

// The last `axes` axes as one row.
RowsOf rows_of(const Tensor& t, int64_t axes);

Pool pool();

const Table& table();

}  // namespace normkit
