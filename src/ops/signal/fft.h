// The discrete Fourier transform of any length, in double precision.
#pragma once

#include <complex>
#include <cstdint>
#include <memory>
#include <vector>

namespace deepjit {

// Transforms of one length; immutable, so one plan serves any number of transforms. Lengths with small
// prime factors take mixed-radix passes; the rest go through a longer convolution (Bluestein).
class Fft {
 public:
  using Complex = std::complex<double>;

  // y[k] = sum_n x[n] exp(-2 pi i k n / length); with `inverse` exp(+...), not divided by the length.
  Fft(int64_t length, bool inverse);
  // In place; `scratch` has scratch_size() elements.
  void run(Complex* data, Complex* scratch) const;
  int64_t scratch_size() const;

 private:
  void run_passes(Complex* data, Complex* scratch) const;
  void run_chirp(Complex* data, Complex* scratch) const;

  int64_t length_;
  std::vector<int64_t> factors_;
  std::vector<Complex> roots_;  // exp(-+2 pi i k / length)
  // Bluestein: the chirp, the transform of its conjugate, and the longer transforms.
  std::vector<Complex> chirp_;
  std::vector<Complex> filter_;
  std::unique_ptr<Fft> forward_;
  std::unique_ptr<Fft> backward_;
};

}  // namespace deepjit
