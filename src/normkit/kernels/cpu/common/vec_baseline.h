// Sixteen bytes as plain arrays, for every processor; compilers turn the loops into its vectors.
#pragma once
#include "scalar.h"

NORMKIT_BEGIN

template <class C>
struct Vec {
  static constexpr int width = 16 / sizeof(C);
  C v[width];

  static Vec all(C value) {
    Vec out;
    for (C& element : out.v) element = value;
    return out;
  }
  template <class T>
  static Vec load(const T* p) {
    Vec out;
    for (int j = 0; j < width; ++j) out.v[j] = widened(p[j]);
    return out;
  }
  template <class T>
  void store(T* p) const {
    for (int j = 0; j < width; ++j) p[j] = narrowed<T>(v[j]);
  }
  template <class T>
  static Vec load_part(const T* p, int n) {
    Vec out = all(0);
    for (int j = 0; j < n; ++j) out.v[j] = widened(p[j]);
    return out;
  }
  template <class T>
  void store_part(T* p, int n) const {
    for (int j = 0; j < n; ++j) p[j] = narrowed<T>(v[j]);
  }
  Vec first(int n) const {
    Vec out = *this;
    for (int j = n; j < width; ++j) out.v[j] = 0;
    return out;
  }
  double total() const {
    double sum = 0;
    for (C element : v) sum += element;
    return sum;
  }
};

#define NORMKIT_ELEMENTWISE(op)                                      \
  template <class C>                                                 \
  inline Vec<C> operator op(Vec<C> a, Vec<C> b) {                    \
    Vec<C> out;                                                      \
    for (int j = 0; j < Vec<C>::width; ++j) out.v[j] = a.v[j] op b.v[j]; \
    return out;                                                      \
  }
NORMKIT_ELEMENTWISE(+)
NORMKIT_ELEMENTWISE(-)
NORMKIT_ELEMENTWISE(*)
NORMKIT_ELEMENTWISE(/)
#undef NORMKIT_ELEMENTWISE

template <class C>
inline Vec<C> fma(Vec<C> a, Vec<C> b, Vec<C> c) {
  return a * b + c;
}

// The second where one is NaN.
inline Vec<float> smaller(Vec<float> a, Vec<float> b) {
  for (int j = 0; j < Vec<float>::width; ++j) b.v[j] = a.v[j] < b.v[j] ? a.v[j] : b.v[j];
  return b;
}
inline Vec<float> larger(Vec<float> a, Vec<float> b) {
  for (int j = 0; j < Vec<float>::width; ++j) b.v[j] = a.v[j] > b.v[j] ? a.v[j] : b.v[j];
  return b;
}

// 2^n from 3 * 2^22 + n, |n| < 127.
inline Vec<float> power_of_two(Vec<float> n) {
  for (float& element : n.v) element = float_of((bits_of(element) << 23) + 0x3f800000u);
  return n;
}

NORMKIT_END
