#include "ops/signal/fft.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace deepjit {

namespace {

constexpr int64_t kLargestRadix = 13;

Fft::Complex unit_root(int64_t k, int64_t n, bool inverse) {
  const double angle = 2 * std::numbers::pi * static_cast<double>(k % n) / static_cast<double>(n);
  return {std::cos(angle), inverse ? std::sin(angle) : -std::sin(angle)};
}

// std::complex's operator* checks for NaN; this one is just four multiplications.
inline Fft::Complex mul(Fft::Complex a, Fft::Complex b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

std::vector<int64_t> small_factors(int64_t n) {
  std::vector<int64_t> factors;
  for (int64_t p : {4, 2, 3, 5, 7, 11, 13}) {
    while (n % p == 0) {
      factors.push_back(p);
      n /= p;
    }
  }
  if (n != 1) factors.clear();
  return factors;
}

}  // namespace

Fft::Fft(int64_t length, bool inverse) : length_(length) {
  if (length_ <= 1) return;
  factors_ = small_factors(length_);
  roots_.resize(static_cast<size_t>(length_));
  for (int64_t k = 0; k < length_; ++k) roots_[static_cast<size_t>(k)] = unit_root(k, length_, inverse);
  if (!factors_.empty()) return;
  // k n = (k^2 + n^2 - (k - n)^2) / 2 turns the transform into a convolution with a chirp.
  int64_t padded = 1;
  while (padded < 2 * length_ - 1) padded *= 2;
  chirp_.resize(static_cast<size_t>(length_));
  for (int64_t k = 0; k < length_; ++k) {
    const auto square = static_cast<int64_t>((static_cast<unsigned __int128>(k) * static_cast<uint64_t>(k)) %
                                             static_cast<uint64_t>(2 * length_));
    chirp_[static_cast<size_t>(k)] = unit_root(square, 2 * length_, inverse);
  }
  filter_.assign(static_cast<size_t>(padded), Complex());
  for (int64_t k = 0; k < length_; ++k) {
    const Complex value = std::conj(chirp_[static_cast<size_t>(k)]) / static_cast<double>(padded);
    filter_[static_cast<size_t>(k)] = value;
    if (k > 0) filter_[static_cast<size_t>(padded - k)] = value;
  }
  forward_ = std::make_unique<Fft>(padded, false);
  backward_ = std::make_unique<Fft>(padded, true);
  std::vector<Complex> scratch(static_cast<size_t>(forward_->scratch_size()));
  forward_->run(filter_.data(), scratch.data());
}

int64_t Fft::scratch_size() const {
  return forward_ ? forward_->length_ + forward_->scratch_size() : std::max<int64_t>(length_, 1);
}

void Fft::run(Complex* data, Complex* scratch) const {
  if (length_ <= 1) return;
  if (forward_) {
    run_chirp(data, scratch);
  } else {
    run_passes(data, scratch);
  }
}

// After the passes over the first factors, of product l, in[k * m + s] holds element k of the transform of
// x[s], x[s + m], ... (l of them, l * m = length). Each pass joins `radix` such transforms into a longer one.
void Fft::run_passes(Complex* data, Complex* scratch) const {
  Complex* in = data;
  Complex* out = scratch;
  int64_t l = 1;
  for (int64_t radix : factors_) {
    const int64_t m = length_ / l / radix;
    const int64_t stride = length_ / radix;  // roots_[q * stride] is a root of order `radix`
    for (int64_t k = 0; k < l; ++k) {
      const Complex* x = in + k * m * radix;
      Complex* y = out + k * m;
      Complex twiddle[kLargestRadix];
      for (int64_t r = 1; r < radix; ++r) twiddle[r] = roots_[static_cast<size_t>(r * k * m)];
      if (radix == 2) {
        for (int64_t s = 0; s < m; ++s) {
          const Complex a = x[s];
          const Complex b = mul(x[s + m], twiddle[1]);
          y[s] = a + b;
          y[s + l * m] = a - b;
        }
      } else if (radix == 4) {
        const bool inverse = roots_[static_cast<size_t>(stride)].imag() > 0;
        for (int64_t s = 0; s < m; ++s) {
          const Complex a = x[s];
          const Complex b = mul(x[s + m], twiddle[1]);
          const Complex c = mul(x[s + 2 * m], twiddle[2]);
          const Complex d = mul(x[s + 3 * m], twiddle[3]);
          const Complex e = b - d;
          const Complex turned = inverse ? Complex(-e.imag(), e.real()) : Complex(e.imag(), -e.real());
          y[s] = (a + c) + (b + d);
          y[s + l * m] = (a - c) + turned;
          y[s + 2 * l * m] = (a + c) - (b + d);
          y[s + 3 * l * m] = (a - c) - turned;
        }
      } else {
        for (int64_t s = 0; s < m; ++s) {
          Complex value[kLargestRadix];
          value[0] = x[s];
          for (int64_t r = 1; r < radix; ++r) value[r] = mul(x[s + r * m], twiddle[r]);
          for (int64_t q = 0; q < radix; ++q) {
            Complex sum = value[0];
            for (int64_t r = 1; r < radix; ++r) {
              sum += mul(value[r], roots_[static_cast<size_t>(r * q % radix * stride)]);
            }
            y[s + q * l * m] = sum;
          }
        }
      }
    }
    std::swap(in, out);
    l *= radix;
  }
  if (in != data) std::copy_n(in, length_, data);
}

void Fft::run_chirp(Complex* data, Complex* scratch) const {
  const int64_t padded = forward_->length_;
  Complex* work = scratch;
  Complex* inner = scratch + padded;
  for (int64_t k = 0; k < length_; ++k) work[k] = mul(data[k], chirp_[static_cast<size_t>(k)]);
  std::fill(work + length_, work + padded, Complex());
  forward_->run(work, inner);
  for (int64_t k = 0; k < padded; ++k) work[k] = mul(work[k], filter_[static_cast<size_t>(k)]);
  backward_->run(work, inner);
  for (int64_t k = 0; k < length_; ++k) data[k] = mul(work[k], chirp_[static_cast<size_t>(k)]);
}

}  // namespace deepjit
