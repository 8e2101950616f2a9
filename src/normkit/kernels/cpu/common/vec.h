// Vectors of the compute type C (float or double): as wide as the instruction set has them.
//
// load and store convert from and to the dtype of memory. A last argument n < width means a tail:
// only n elements are touched, and what is loaded beyond them is 0.
#pragma once
#include "scalar.h"

#if defined(__AVX512F__)
#include "vec_avx512.h"
#elif defined(__AVX2__)
#include "vec_avx2.h"
#else
#include "vec_baseline.h"
#endif

NORMKIT_BEGIN

// Ask for the cache line of an address that will be read soon; any address may be given.
template <class T>
inline void expect(const T* address) {
  __builtin_prefetch(address);
}

struct Full {};  // in place of n: all elements of a vector

template <class C, class T>
inline Vec<C> load(const T* from, Full) {
  return Vec<C>::load(from);
}

template <class C, class T>
inline Vec<C> load(const T* from, int n) {
  return Vec<C>::load_part(from, n);
}

template <class C, class T>
inline void store(T* to, Vec<C> value, Full) {
  value.store(to);
}

template <class C, class T>
inline void store(T* to, Vec<C> value, int n) {
  value.store_part(to, n);
}

// Zeros in place of the elements that a tail does not have.
template <class C>
inline Vec<C> only(Vec<C> value, Full) {
  return value;
}

template <class C>
inline Vec<C> only(Vec<C> value, int n) {
  return value.first(n);
}

NORMKIT_END
