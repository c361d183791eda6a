// Cast between numbers and text.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/visit.h"
#include "ops/pointwise/cast.h"

namespace deepjit {

namespace {

template <typename... Args>
std::string characters(Args... args) {
  char buffer[512];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, args...).ptr;
  return std::string(buffer, end);
}

// As few digits as lead back to the same element of type T, in plain form unless that gets long.
template <typename T>
std::string float_text(T element) {
  const auto value = load_as_compute(element);
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-INF" : "INF";
  const bool plain = value == 0 || (std::abs(value) >= compute_t<T>(1e-4) && std::abs(value) < compute_t<T>(1e16));
  const auto format = plain ? std::chars_format::fixed : std::chars_format::scientific;
  std::string text = characters(value, format);
  if constexpr (sizeof(T) == 2) {  // its compute type would show digits that the element does not have
    for (int digits = 0; digits < 8; ++digits) {
      std::string shorter = characters(value, std::chars_format::scientific, digits);
      float back = 0;
      std::from_chars(shorter.data(), shorter.data() + shorter.size(), back);
      if (T(back).bits != element.bits) continue;
      text = plain ? characters(back, format) : shorter;
      break;
    }
  }
  if (plain && text.find('.') == std::string::npos) text += ".0";
  return text;
}

std::string_view trimmed(const std::string& text) {
  constexpr std::string_view kBlanks = " \t\n\v\f\r";
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string::npos) return {};
  return std::string_view(text).substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

bool equal_but_for_case(std::string_view a, std::string_view lower) {
  const auto low = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::equal(a.begin(), a.end(), lower.begin(), lower.end(), [&](char x, char y) { return low(x) == y; });
}

[[noreturn]] void not_a_number(const std::string& text) {
  throw Error(Code::RUN_VALUE, "Cast: \"" + text.substr(0, 40) + "\" is not a number that fits");
}

// All of the text as a number; false when it is not one. A '+' in front is allowed.
template <typename T>
bool read_number(std::string_view text, T& value) {
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (text.starts_with('-')) return false;
  }
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  return result.ec == std::errc() && result.ptr == text.data() + text.size() && !text.empty();
}

double parse_double(const std::string& original) {
  std::string_view text = trimmed(original);
  if (equal_but_for_case(text, "true")) return 1;
  if (equal_but_for_case(text, "false")) return 0;
  double value = 0;
  if (read_number(text, value)) return value;
  // Too large or too small for a double: strtod gives the infinity or the zero it rounds to.
  if (text.empty() || text.find_first_not_of("+-.0123456789eE") != std::string_view::npos) not_a_number(original);
  const std::string copy(text);
  char* end = nullptr;
  value = std::strtod(copy.c_str(), &end);
  if (*end != '\0') not_a_number(original);
  return value;
}

// Whole numbers are read exactly, others by their whole part.
template <typename W>
W parse_integer(const std::string& text) {
  W whole = 0;
  if (read_number(trimmed(text), whole)) return whole;
  const double value = std::trunc(parse_double(text));
  const auto low = static_cast<double>(std::numeric_limits<W>::min());
  const double beyond = std::ldexp(1.0, std::numeric_limits<W>::digits);
  if (!(value >= low && value < beyond)) not_a_number(text);
  return static_cast<W>(value);
}

constexpr int64_t kBlock = 256;

// Through blocks of W, which cast_elements converts to and from.
template <typename W, typename F>
void parse_through(DType wide, const TensorView& in, const TensorView& out, CastRounding rounding, F&& parse) {
  W block[kBlock];
  const size_t size = dtype_size(out.dtype);
  for (int64_t start = 0; start < in.count(); start += kBlock) {
    const int64_t n = std::min(kBlock, in.count() - start);
    for (int64_t i = 0; i < n; ++i) block[i] = parse(in.as<std::string>()[start + i]);
    cast_elements({wide, {n}, block}, {out.dtype, {n}, out.as<char>() + static_cast<size_t>(start) * size}, rounding);
  }
}

template <typename W, typename F>
void print_through(DType wide, const TensorView& in, const TensorView& out, F&& print) {
  W block[kBlock];
  const size_t size = dtype_size(in.dtype);
  for (int64_t start = 0; start < in.count(); start += kBlock) {
    const int64_t n = std::min(kBlock, in.count() - start);
    cast_elements({in.dtype, {n}, in.as<char>() + static_cast<size_t>(start) * size}, {wide, {n}, block});
    for (int64_t i = 0; i < n; ++i) out.as<std::string>()[start + i] = print(block[i]);
  }
}

}  // namespace

void print_numbers(const TensorView& in, const TensorView& out) {
  switch (in.dtype) {
    case DType::BOOL:
      return print_through<int64_t>(DType::INT64, in, out, [](int64_t x) { return x != 0 ? "True" : "False"; });
    case DType::UINT64:
      return print_through<uint64_t>(DType::UINT64, in, out, characters<uint64_t>);
    case DType::FLOAT64:
      return print_through<double>(DType::FLOAT64, in, out, float_text<double>);
    case DType::FLOAT16:
      return print_through<float16>(DType::FLOAT16, in, out, float_text<float16>);
    case DType::BFLOAT16:
      return print_through<bfloat16>(DType::BFLOAT16, in, out, float_text<bfloat16>);
    default:
      break;
  }
  if (is_float(in.dtype)) return print_through<float>(DType::FLOAT32, in, out, float_text<float>);
  print_through<int64_t>(DType::INT64, in, out, characters<int64_t>);
}

void parse_numbers(const TensorView& in, const TensorView& out, CastRounding rounding) {
  if (out.dtype == DType::UINT64) {
    return parse_through<uint64_t>(DType::UINT64, in, out, rounding, parse_integer<uint64_t>);
  }
  if (is_integer(out.dtype)) return parse_through<int64_t>(DType::INT64, in, out, rounding, parse_integer<int64_t>);
  parse_through<double>(DType::FLOAT64, in, out, rounding, parse_double);
}

}  // namespace deepjit
