// One number at a time: half types to and from float, rounding to the nearest even.
#pragma once
#include "dtype.h"

NORMKIT_BEGIN

inline uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float float_of(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline float widened(BFloat16 value) { return float_of(uint32_t(value.bits) << 16); }

inline float widened(Half value) {
  const uint32_t sign = uint32_t(value.bits & 0x8000u) << 16;
  const uint32_t rest = value.bits & 0x7fffu;
  if (rest >= 0x7c00u) return float_of(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
  if (rest >= 0x400u) return float_of(sign | ((rest << 13) + 0x38000000u));
  return float_of(sign | bits_of(float(rest) * 0x1p-24f));  // a subnormal is a multiple of 2^-24
}

inline float widened(float value) { return value; }
inline double widened(double value) { return value; }

template <class T>
inline T narrowed(double value);

template <>
inline double narrowed<double>(double value) {
  return value;
}

template <>
inline float narrowed<float>(double value) {
  return float(value);
}

template <>
inline BFloat16 narrowed<BFloat16>(double value) {
  const uint32_t bits = bits_of(float(value));
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {uint16_t(bits >> 16 | 0x40u)};
  return {uint16_t((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16)};
}

template <>
inline Half narrowed<Half>(double value) {
  const uint32_t bits = bits_of(float(value));
  const uint32_t sign = bits >> 16 & 0x8000u;
  uint32_t rest = bits & 0x7fffffffu;
  if (rest > 0x7f800000u) return {uint16_t(sign | 0x7e00u)};
  if (rest >= 0x477ff000u) return {uint16_t(sign | 0x7c00u)};  // from 65520 on, infinity
  if (rest < 0x38800000u) {  // subnormal: adding 0.5 rounds to a multiple of 2^-24
    return {uint16_t(sign | (bits_of(float_of(rest) + 0.5f) - 0x3f000000u))};
  }
  rest += 0xfffu + (rest >> 13 & 1u);
  return {uint16_t(sign | (rest - 0x38000000u) >> 13)};
}

NORMKIT_END
