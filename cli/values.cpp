#include "cli/values.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace deepjit::cli {

namespace {

bool same_elements(const TensorView& a, const TensorView& b) {
  if (a.dtype == DType::STRING) {
    return std::equal(a.as<std::string>(), a.as<std::string>() + a.count(), b.as<std::string>());
  }
  return a.count() == 0 || std::memcmp(a.data, b.data, static_cast<size_t>(a.bytes())) == 0;
}

// The worst of the elements of two sequences or optionals of one length.
double elements_error(const TensorView& actual, const TensorView& expected) {
  double worst = 0;
  for (int64_t i = 0; i < actual.count(); ++i) {
    worst = std::max(worst, relative_error(actual.as<Tensor>()[i].view(), expected.as<Tensor>()[i].view()));
  }
  return worst;
}

}  // namespace

double relative_error(const TensorView& actual, const TensorView& expected) {
  if (!(actual.desc() == expected.desc())) return kDifferent;
  if (is_collection(actual.dtype)) return elements_error(actual, expected);
  if (!is_float(actual.dtype)) return same_elements(actual, expected) ? 0 : kDifferent;
  const std::vector<double> a = to_f64(actual);
  const std::vector<double> e = to_f64(expected);
  double scale = 1e-30;
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == e[i] || (std::isnan(a[i]) && std::isnan(e[i]))) {
      if (std::isfinite(e[i])) scale = std::max(scale, std::abs(e[i]));
      continue;
    }
    if (!std::isfinite(a[i]) || !std::isfinite(e[i])) return kDifferent;
    scale = std::max(scale, std::abs(e[i]));
    worst = std::max(worst, std::abs(a[i] - e[i]));
  }
  return std::min(worst / scale, kDifferent);
}

Summary summarize(const TensorView& view) {
  Summary s;
  double sum = 0;
  int64_t finite = 0;
  for (double v : to_f64(view)) {
    if (!std::isfinite(v)) {
      ++s.not_finite;
      continue;
    }
    s.min = finite == 0 ? v : std::min(s.min, v);
    s.max = finite == 0 ? v : std::max(s.max, v);
    sum += v;
    ++finite;
  }
  if (finite > 0) s.mean = sum / static_cast<double>(finite);
  return s;
}

std::vector<double> percentiles(std::vector<double>& samples, const std::vector<double>& at) {
  std::sort(samples.begin(), samples.end());
  std::vector<double> values;
  for (double p : at) {
    const double rank = std::ceil(p / 100 * static_cast<double>(samples.size()));
    const size_t index = static_cast<size_t>(std::max(1.0, rank)) - 1;
    values.push_back(samples[std::min(index, samples.size() - 1)]);
  }
  return values;
}

}  // namespace deepjit::cli
