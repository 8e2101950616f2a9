// Eight floats or four doubles; AVX2, FMA and F16C.
#pragma once
#include <immintrin.h>

#include "scalar.h"

NORMKIT_BEGIN

template <class C>
struct Vec;

// Tails of 16-bit elements go through memory: AVX2 has no masks for them.
template <class V, class T>
NORMKIT_ONCE V load_words(const T* p, int n) {
  T whole[V::width] = {};
  for (int j = 0; j < n; ++j) whole[j] = p[j];
  return V::load(whole);
}

template <class V, class T>
NORMKIT_ONCE void store_words(T* p, V value, int n) {
  T whole[V::width];
  value.store(whole);
  for (int j = 0; j < n; ++j) p[j] = whole[j];
}

template <>
struct Vec<float> {
  static constexpr int width = 8;
  __m256 v;

  static Vec all(float value) { return {_mm256_set1_ps(value)}; }
  static Vec load(const float* p) { return {_mm256_loadu_ps(p)}; }
  static Vec load(const Half* p) { return {_mm256_cvtph_ps(half_words(p))}; }
  static Vec load(const BFloat16* p) {
    return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half_words(p)), 16))};
  }

  void store(float* p) const { _mm256_storeu_ps(p, v); }
  void store(Half* p) const {
    put(p, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  void store(BFloat16* p) const {
    const __m256i bits = _mm256_castps_si256(v);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i up = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256i high = _mm256_srli_epi32(_mm256_blendv_epi8(up, quiet, nan), 16);
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(high, high), 0xd8);
    put(p, _mm256_castsi256_si128(packed));
  }

  static Vec load_part(const float* p, int n) { return {_mm256_maskload_ps(p, mask(n))}; }
  template <class T>
  static Vec load_part(const T* p, int n) {
    return load_words<Vec>(p, n);
  }
  void store_part(float* p, int n) const { _mm256_maskstore_ps(p, mask(n), v); }
  template <class T>
  void store_part(T* p, int n) const {
    store_words(p, *this, n);
  }
  Vec first(int n) const { return {_mm256_and_ps(v, _mm256_castsi256_ps(mask(n)))}; }

  // The sum of all elements, in float64.
  double total() const {
    const __m256d pairs = _mm256_add_pd(_mm256_cvtps_pd(_mm256_castps256_ps128(v)),
                                        _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1)));
    const __m128d two =
        _mm_add_pd(_mm256_castpd256_pd128(pairs), _mm256_extractf128_pd(pairs, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
  }

 private:
  static __m256i mask(int n) {
    const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), index);
  }
  static __m128i half_words(const void* p) {
    return _mm_loadu_si128(static_cast<const __m128i*>(p));
  }
  static void put(void* p, __m128i words) { _mm_storeu_si128(static_cast<__m128i*>(p), words); }
};

inline Vec<float> operator+(Vec<float> a, Vec<float> b) { return {_mm256_add_ps(a.v, b.v)}; }
inline Vec<float> operator-(Vec<float> a, Vec<float> b) { return {_mm256_sub_ps(a.v, b.v)}; }
inline Vec<float> operator*(Vec<float> a, Vec<float> b) { return {_mm256_mul_ps(a.v, b.v)}; }
inline Vec<float> operator/(Vec<float> a, Vec<float> b) { return {_mm256_div_ps(a.v, b.v)}; }
inline Vec<float> fma(Vec<float> a, Vec<float> b, Vec<float> c) {
  return {_mm256_fmadd_ps(a.v, b.v, c.v)};
}
// The second where one is NaN.
inline Vec<float> smaller(Vec<float> a, Vec<float> b) { return {_mm256_min_ps(a.v, b.v)}; }
inline Vec<float> larger(Vec<float> a, Vec<float> b) { return {_mm256_max_ps(a.v, b.v)}; }

// 2^n from 3 * 2^22 + n, |n| < 127.
inline Vec<float> power_of_two(Vec<float> n) {
  const __m256i exponent = _mm256_slli_epi32(_mm256_castps_si256(n.v), 23);
  return {_mm256_castsi256_ps(_mm256_add_epi32(exponent, _mm256_set1_epi32(0x3f800000)))};
}

template <>
struct Vec<double> {
  static constexpr int width = 4;
  __m256d v;

  static Vec all(double value) { return {_mm256_set1_pd(value)}; }
  static Vec load(const double* p) { return {_mm256_loadu_pd(p)}; }
  static Vec load(const float* p) { return {_mm256_cvtps_pd(_mm_loadu_ps(p))}; }

  void store(double* p) const { _mm256_storeu_pd(p, v); }
  void store(float* p) const { _mm_storeu_ps(p, _mm256_cvtpd_ps(v)); }

  static Vec load_part(const double* p, int n) { return {_mm256_maskload_pd(p, mask(n))}; }
  static Vec load_part(const float* p, int n) { return load_words<Vec>(p, n); }
  void store_part(double* p, int n) const { _mm256_maskstore_pd(p, mask(n), v); }
  void store_part(float* p, int n) const { store_words(p, *this, n); }
  Vec first(int n) const { return {_mm256_and_pd(v, _mm256_castsi256_pd(mask(n)))}; }

  double total() const {
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
  }

 private:
  static __m256i mask(int64_t n) {
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3));
  }
};

inline Vec<double> operator+(Vec<double> a, Vec<double> b) { return {_mm256_add_pd(a.v, b.v)}; }
inline Vec<double> operator-(Vec<double> a, Vec<double> b) { return {_mm256_sub_pd(a.v, b.v)}; }
inline Vec<double> operator*(Vec<double> a, Vec<double> b) { return {_mm256_mul_pd(a.v, b.v)}; }
inline Vec<double> operator/(Vec<double> a, Vec<double> b) { return {_mm256_div_pd(a.v, b.v)}; }
inline Vec<double> fma(Vec<double> a, Vec<double> b, Vec<double> c) {
  return {_mm256_fmadd_pd(a.v, b.v, c.v)};
}

NORMKIT_END
