#include "compiler/user_op_compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/visit.h"

namespace deepjit {

namespace {

double tolerance_of(DType dtype) {
  if (!is_float(dtype)) return 0;
  return dtype_size(dtype) <= 2 ? 4e-3 : dtype == DType::FLOAT64 ? 1e-9 : 2e-5;
}

double largest_of(DType dtype) {
  return dtype == DType::FLOAT16   ? 65504
         : dtype == DType::FLOAT64 ? std::numeric_limits<double>::max()
                                   : std::numeric_limits<float>::max();
}

std::string number_text(DType dtype, double value) {
  if (dtype == DType::BOOL) return value != 0 ? "true" : "false";
  return dtype == DType::FLOAT64 || !is_float(dtype) ? fmt::format("{}", value)
                                                     : fmt::format("{}", static_cast<float>(value));
}

// As the element type holds it.
std::vector<double> rounded(DType dtype, const TensorView& view) {
  std::vector<double> values = to_f64(view);
  if (view.dtype == dtype || !is_float(dtype)) return values;
  visit_float(dtype, "a result", [&]<typename T>() {
    for (double& value : values) {
      value = static_cast<double>(static_cast<compute_t<T>>(static_cast<T>(static_cast<compute_t<T>>(value))));
    }
  });
  return values;
}

// Place `at` of a dense tensor of these dims.
Dims place_of(int64_t at, const Dims& dims) {
  Dims place = Dims::filled(dims.rank(), 0);
  for (int i = dims.rank() - 1; i >= 0; --i) {
    place[i] = at % dims[i];
    at /= dims[i];
  }
  return place;
}

// "x = 3, b = nan" at a place of the result; "" when an operand does not broadcast to it.
std::string operands_at(const OpComparison& c, const Dims& place) {
  std::string text;
  for (size_t i = 0; i < c.fed.size(); ++i) {
    const Dims& dims = c.fed[i].dims;
    const int before = place.rank() - dims.rank();
    if (before < 0) return "";
    int64_t at = 0;
    for (int d = 0; d < dims.rank(); ++d) {
      if (dims[d] != 1 && place[before + d] >= dims[d]) return "";
      at = at * dims[d] + (dims[d] == 1 ? 0 : place[before + d]);
    }
    text += (text.empty() ? "" : ", ") + c.inputs[i] + " = " +
            number_text(c.fed[i].dtype, to_f64(c.fed[i])[static_cast<size_t>(at)]);
  }
  return text;
}

std::string where(const OpComparison& c) {
  std::string told;
  for (size_t i = 0; i < c.fed.size(); ++i) {
    told +=
        (i == 0 ? "" : ", ") + c.inputs[i] + " " + std::string(dtype_name(c.fed[i].dtype)) + c.fed[i].dims.to_string();
  }
  return "op " + c.op + ", " + c.how + ": output \"" + c.output + "\" of " + told;
}

double largest_finite(const std::vector<double>& values, double least) {
  for (double v : values) {
    if (std::isfinite(v)) least = std::max(least, std::fabs(v));
  }
  return least;
}

// What a row's error is relative to.
double scale_of_rows(const OpComparison& c, const std::vector<double>& want) {
  double scale = largest_finite(want, 0.1);
  for (const TensorView& fed : c.fed) {
    if (is_float(fed.dtype)) scale = largest_finite(to_f64(fed), scale);
  }
  return scale;
}

std::vector<double> errors_of(const OpComparison& c, const TensorView& got, const std::vector<double>& g,
                              const TensorView& want) {
  const std::vector<double> w = rounded(got.dtype, want);
  const double near = 0.99 * largest_of(got.dtype);  // rounded up or down, it is infinite or not
  const double row_scale = c.rows ? scale_of_rows(c, w) : 0;
  std::vector<double> errors(g.size());
  for (size_t i = 0; i < g.size(); ++i) {
    const bool overflown = std::fabs(g[i]) > near && std::fabs(w[i]) > near && (g[i] > 0) == (w[i] > 0);
    if (g[i] == w[i] || (std::isnan(g[i]) && std::isnan(w[i])) || overflown) continue;
    const bool finite = std::isfinite(g[i]) && std::isfinite(w[i]);
    errors[i] = finite ? std::fabs(g[i] - w[i]) / std::max(std::fabs(w[i]) + 0.1, row_scale) : INFINITY;
  }
  return errors;
}

// Of integers and bools: 0 or infinite.
std::vector<double> differences_of(const TensorView& got, const std::vector<double>& g, const TensorView& want) {
  std::vector<double> errors(g.size());
  if (is_integer(got.dtype) && is_integer(want.dtype)) {
    const std::vector<int64_t> whole = to_i64(got);
    const std::vector<int64_t> right = to_i64(want);
    for (size_t i = 0; i < g.size(); ++i) errors[i] = whole[i] == right[i] ? 0 : INFINITY;
  } else {
    const std::vector<double> right = to_f64(want);
    for (size_t i = 0; i < g.size(); ++i) errors[i] = g[i] == right[i] ? 0 : INFINITY;
  }
  return errors;
}

[[noreturn]] void fail(const OpComparison& c, const TensorView& got, const std::vector<double>& g,
                       const std::vector<double>& w, const std::vector<double>& errors, double allowed) {
  const auto wrong = [&](double error) { return !(error <= allowed); };
  const auto first = static_cast<size_t>(std::find_if(errors.begin(), errors.end(), wrong) - errors.begin());
  const Dims place = place_of(static_cast<int64_t>(first), got.dims);
  std::string message = where(c) + " at " + place.to_string() + " is " + number_text(got.dtype, g[first]) + ", " +
                        c.source + (c.source.back() == 's' ? " say " : " says ") + number_text(got.dtype, w[first]);
  const std::string operands = c.rows ? "" : operands_at(c, place);
  if (!operands.empty()) message += " (" + operands + ")";
  throw Error(Code::RUN_VALUE, message,
              fmt::format("{} of {} elements differ{}", std::count_if(errors.begin(), errors.end(), wrong), g.size(),
                          allowed > 0 ? fmt::format(" by more than {}", allowed) : ""));
}

}  // namespace

double compare_op_output(const OpComparison& c, const TensorView& got, const std::vector<TensorView>& rights) {
  const std::vector<double> g = to_f64(got);
  std::vector<double> errors;
  for (const TensorView& want : rights) {
    if (!(got.dims == want.dims)) {
      throw Error(Code::RUN_VALUE,
                  where(c) + " has shape " + got.dims.to_string() + ", " + c.source +
                      (c.source.back() == 's' ? " give " : " gives ") + want.dims.to_string(),
                  "reductions keep their dim, of size 1; squeeze drops it");
    }
    const std::vector<double> own = is_float(got.dtype) ? errors_of(c, got, g, want) : differences_of(got, g, want);
    if (errors.empty()) errors = own;
    for (size_t i = 0; i < own.size(); ++i) errors[i] = std::min(errors[i], own[i]);
  }
  const double allowed = c.tolerance > 0 ? c.tolerance : tolerance_of(got.dtype);
  const double largest = errors.empty() ? 0 : *std::max_element(errors.begin(), errors.end());
  if (!(largest <= allowed)) fail(c, got, g, rounded(got.dtype, rights.front()), errors, allowed);
  return largest;
}

}  // namespace deepjit
