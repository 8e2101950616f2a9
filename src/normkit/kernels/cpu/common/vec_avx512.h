// Sixteen floats or eight doubles; AVX-512 F, BW, VL and DQ.
#pragma once
#include <immintrin.h>

#include "scalar.h"

NORMKIT_BEGIN

template <class C>
struct Vec;

template <>
struct Vec<float> {
  static constexpr int width = 16;
  __m512 v;

  static Vec all(float value) { return {_mm512_set1_ps(value)}; }
  static Vec load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static Vec load(const Half* p) { return {_mm512_cvtph_ps(half_words(p))}; }
  static Vec load(const BFloat16* p) {
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half_words(p)), 16))};
  }

  void store(float* p) const { _mm512_storeu_ps(p, v); }
  void store(Half* p) const {
    put(p, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  void store(BFloat16* p) const {
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i up = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    const __m512i rounded =
        _mm512_mask_or_epi32(up, nan, bits, _mm512_set1_epi32(0x400000));
    put(p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16)));
  }

  static Vec load_part(const float* p, int n) { return {_mm512_maskz_loadu_ps(mask(n), p)}; }
  template <class T>
  static Vec load_part(const T* p, int n) {
    T whole[width];
    put(whole, _mm256_maskz_loadu_epi16(mask(n), p));
    return load(whole);
  }
  void store_part(float* p, int n) const { _mm512_mask_storeu_ps(p, mask(n), v); }
  template <class T>
  void store_part(T* p, int n) const {
    T whole[width];
    store(whole);
    _mm256_mask_storeu_epi16(p, mask(n), half_words(whole));
  }
  Vec first(int n) const { return {_mm512_maskz_mov_ps(mask(n), v)}; }

  // The sum of all elements, in float64.
  double total() const {
    const __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256(v));
    const __m512d high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1));
    return _mm512_reduce_add_pd(_mm512_add_pd(low, high));
  }

 private:
  static __mmask16 mask(int n) { return __mmask16((1u << n) - 1); }
  static __m256i half_words(const void* p) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(p));
  }
  static void put(void* p, __m256i words) {
    _mm256_storeu_si256(static_cast<__m256i*>(p), words);
  }
};

inline Vec<float> operator+(Vec<float> a, Vec<float> b) { return {_mm512_add_ps(a.v, b.v)}; }
inline Vec<float> operator-(Vec<float> a, Vec<float> b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline Vec<float> operator*(Vec<float> a, Vec<float> b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline Vec<float> operator/(Vec<float> a, Vec<float> b) { return {_mm512_div_ps(a.v, b.v)}; }
inline Vec<float> fma(Vec<float> a, Vec<float> b, Vec<float> c) {
  return {_mm512_fmadd_ps(a.v, b.v, c.v)};
}
// The second where one is NaN.
inline Vec<float> smaller(Vec<float> a, Vec<float> b) { return {_mm512_min_ps(a.v, b.v)}; }
inline Vec<float> larger(Vec<float> a, Vec<float> b) { return {_mm512_max_ps(a.v, b.v)}; }

// 2^n from 3 * 2^22 + n, |n| < 127.
inline Vec<float> power_of_two(Vec<float> n) {
  const __m512i exponent = _mm512_slli_epi32(_mm512_castps_si512(n.v), 23);
  return {_mm512_castsi512_ps(_mm512_add_epi32(exponent, _mm512_set1_epi32(0x3f800000)))};
}

template <>
struct Vec<double> {
  static constexpr int width = 8;
  __m512d v;

  static Vec all(double value) { return {_mm512_set1_pd(value)}; }
  static Vec load(const double* p) { return {_mm512_loadu_pd(p)}; }
  static Vec load(const float* p) { return {_mm512_cvtps_pd(_mm256_loadu_ps(p))}; }

  void store(double* p) const { _mm512_storeu_pd(p, v); }
  void store(float* p) const { _mm256_storeu_ps(p, _mm512_cvtpd_ps(v)); }

  static Vec load_part(const double* p, int n) { return {_mm512_maskz_loadu_pd(mask(n), p)}; }
  static Vec load_part(const float* p, int n) {
    return {_mm512_cvtps_pd(_mm256_maskz_loadu_ps(mask(n), p))};
  }
  void store_part(double* p, int n) const { _mm512_mask_storeu_pd(p, mask(n), v); }
  void store_part(float* p, int n) const {
    _mm256_mask_storeu_ps(p, mask(n), _mm512_cvtpd_ps(v));
  }
  Vec first(int n) const { return {_mm512_maskz_mov_pd(mask(n), v)}; }

  double total() const { return _mm512_reduce_add_pd(v); }

 private:
  static __mmask8 mask(int n) { return __mmask8((1u << n) - 1); }
};

inline Vec<double> operator+(Vec<double> a, Vec<double> b) { return {_mm512_add_pd(a.v, b.v)}; }
inline Vec<double> operator-(Vec<double> a, Vec<double> b) { return {_mm512_sub_pd(a.v, b.v)}; }
inline Vec<double> operator*(Vec<double> a, Vec<double> b) { return {_mm512_mul_pd(a.v, b.v)}; }
inline Vec<double> operator/(Vec<double> a, Vec<double> b) { return {_mm512_div_pd(a.v, b.v)}; }
inline Vec<double> fma(Vec<double> a, Vec<double> b, Vec<double> c) {
  return {_mm512_fmadd_pd(a.v, b.v, c.v)};
}

NORMKIT_END
