#include "precision/narrow.h"

#include <fmt/format.h>

#include <cmath>

namespace deepjit {

namespace {

constexpr double kHarm = 4;  // times the roundoff; rounding alone loses about a third of one

template <typename T>
void narrow_to(const Tensor& from, Narrowed& out) {
  const float* x = from.as<float>();
  T* y = out.tensor.as<T>();
  const int64_t n = from.count();
  double whole = 0;
  double lost = 0;
  float largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    y[i] = T(x[i]);
    if (!std::isfinite(x[i])) continue;
    largest = std::max(largest, std::fabs(x[i]));
    const double error = static_cast<double>(x[i]) - static_cast<double>(static_cast<float>(y[i]));
    whole += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    lost += error * error;
  }
  out.largest = static_cast<double>(largest);
  out.overflows = out.largest > largest_of(out.tensor.dtype());
  out.relative_loss = whole > 0 ? std::sqrt(lost / whole) : 0;
  out.vanishes = !out.overflows && out.relative_loss > kHarm * roundoff_of(out.tensor.dtype());
}

}  // namespace

double largest_of(DType type) { return type == DType::FLOAT16 ? 65504.0 : 0x1.FEp127; }
double smallest_of(DType type) { return type == DType::FLOAT16 ? 0x1p-14 : 0x1p-126; }
double roundoff_of(DType type) { return type == DType::FLOAT16 ? 0x1p-11 : 0x1p-8; }

Narrowed narrow(const Tensor& tensor, DType type) {
  Narrowed out;
  out.tensor = Tensor(type, tensor.dims());
  if (type == DType::FLOAT16) {
    narrow_to<float16>(tensor, out);
  } else {
    narrow_to<bfloat16>(tensor, out);
  }
  return out;
}

std::string what_is_lost(const Narrowed& narrowed, DType type) {
  const std::string name(dtype_name(type));
  if (narrowed.overflows) return fmt::format("a constant of {:.2g} does not fit {}", narrowed.largest, name);
  if (narrowed.vanishes) {
    return fmt::format("a constant of at most {:.2g} loses {:.2g}% in {}", narrowed.largest,
                       100 * narrowed.relative_loss, name);
  }
  return "";
}

}  // namespace deepjit
