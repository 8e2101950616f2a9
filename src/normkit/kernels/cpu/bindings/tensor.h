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

inline bool is_half(Dtype dtype) { return dtype == Dtype::float16 || dtype == Dtype::bfloat16; }

// Raises for a dtype that the kernels do not know.
Dtype dtype_of(const Tensor& t);

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

// The same for a tensor that must have the rows of `like`, as dy has those of x.
RowsOf rows_like(const Tensor& t, const RowsOf& like, int64_t axes, Dtype dtype);

Pool pool();

const Table& table();

}  // namespace normkit
