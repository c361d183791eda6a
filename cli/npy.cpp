#include "cli/npy.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/small_types.h"
#include "cli/files.h"

namespace deepjit::cli {

namespace {

constexpr char kMagic[] = "\x93NUMPY";

struct Descr {
  const char* text;
  DType dtype;
};
constexpr Descr kDescrs[] = {
    {"f4", DType::FLOAT32}, {"f8", DType::FLOAT64}, {"f2", DType::FLOAT16}, {"b1", DType::BOOL},
    {"i1", DType::INT8},    {"u1", DType::UINT8},   {"i2", DType::INT16},   {"u2", DType::UINT16},
    {"i4", DType::INT32},   {"u4", DType::UINT32},  {"i8", DType::INT64},   {"u8", DType::UINT64},
};

[[noreturn]] void bad(const std::string& path, const std::string& why) {
  throw Error(Code::ARGUMENT, "\"" + path + "\" is not a usable .npy file: " + why,
              "write it with numpy.save(PATH, array)");
}

// The text of one entry of the header's dictionary, from after the colon.
std::string entry(const std::string& path, const std::string& header, const std::string& key) {
  const size_t at = header.find("'" + key + "':");
  if (at == std::string::npos) bad(path, "the header has no " + key);
  const size_t start = header.find_first_not_of(' ', at + key.size() + 3);
  if (start == std::string::npos) bad(path, "the header is cut off");
  const char open = header[start];
  const size_t end = open == '('    ? header.find(')', start)
                     : open == '\'' ? header.find('\'', start + 1)
                                    : header.find_first_of(",}", start) - 1;
  if (end == std::string::npos || end < start) bad(path, "the header is cut off");
  return header.substr(start, end - start + 1);
}

Dims parse_shape(const std::string& path, const std::string& text) {
  Dims dims;
  size_t i = 0;
  while (i < text.size()) {
    if (text[i] < '0' || text[i] > '9') {
      ++i;
      continue;
    }
    const size_t end = std::min(text.find_first_not_of("0123456789", i), text.size());
    if (end - i > 18) bad(path, "a dimension is too large");
    dims.push_back(std::stoll(text.substr(i, end - i)));
    i = end;
  }
  return dims;
}

struct Header {
  std::string descr;  // without the byte order
  bool swap = false;
  bool fortran = false;
  Dims dims;
  size_t data_at = 0;
};

Header read_header(const std::string& path, const std::string& bytes) {
  if (bytes.size() < 10 || std::memcmp(bytes.data(), kMagic, 6) != 0) bad(path, "it does not start with NUMPY");
  const bool wide = bytes[6] >= 2;
  if (wide && bytes.size() < 12) bad(path, "the header is cut off");
  uint32_t length = 0;
  std::memcpy(&length, bytes.data() + 8, wide ? 4 : 2);
  Header h;
  h.data_at = (wide ? 12u : 10u) + length;
  if (h.data_at > bytes.size()) bad(path, "the header is cut off");
  const std::string text = bytes.substr(wide ? 12 : 10, length);
  const std::string descr = entry(path, text, "descr");
  if (descr.size() < 5 || descr[0] != '\'') bad(path, "structured types are not supported");
  h.swap = descr[1] == '>';
  h.descr = descr.substr(2, descr.size() - 3);
  h.fortran = entry(path, text, "fortran_order") == "True";
  h.dims = parse_shape(path, entry(path, text, "shape"));
  return h;
}

void swap_bytes(char* data, int64_t count, size_t size) {
  for (int64_t i = 0; i < count; ++i) std::reverse(data + i * size, data + (i + 1) * size);
}

// Calls f(row-major index, position in the file) for every element of a Fortran-ordered array.
template <typename F>
void for_each_fortran(const Dims& dims, F&& f) {
  const int64_t count = dims.count();
  Dims index = Dims::filled(dims.rank(), 0);
  const Dims strides = dims.strides();
  for (int64_t at = 0; at < count; ++at) {
    int64_t row_major = 0;
    for (int d = 0; d < dims.rank(); ++d) row_major += index[d] * strides[d];
    f(row_major, at);
    for (int d = 0; d < dims.rank() && ++index[d] == dims[d]; ++d) index[d] = 0;
  }
}

void append_utf8(std::string& text, uint32_t c) {
  if (c < 0x80) {
    text += static_cast<char>(c);
  } else if (c < 0x800) {
    text += {static_cast<char>(0xc0 | (c >> 6)), static_cast<char>(0x80 | (c & 63))};
  } else if (c < 0x10000) {
    text += {static_cast<char>(0xe0 | (c >> 12)), static_cast<char>(0x80 | ((c >> 6) & 63)),
             static_cast<char>(0x80 | (c & 63))};
  } else {
    text += {static_cast<char>(0xf0 | ((c >> 18) & 7)), static_cast<char>(0x80 | ((c >> 12) & 63)),
             static_cast<char>(0x80 | ((c >> 6) & 63)), static_cast<char>(0x80 | (c & 63))};
  }
}

// Code points of UTF-8 text; a byte that fits nowhere stands for itself.
std::u32string from_utf8(const std::string& text) {
  std::u32string out;
  for (size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    const size_t length = c < 0x80 ? 1 : c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
    char32_t point = length == 1 ? c : c & (0x7fu >> length);
    for (size_t k = 1; k < length && i + k < text.size(); ++k) {
      point = (point << 6) | (static_cast<unsigned char>(text[i + k]) & 63);
    }
    out += point;
    i += length;
  }
  return out;
}

Tensor read_strings(const std::string& path, const Header& h, const std::string& bytes) {
  const bool wide = h.descr[0] == 'U';
  const std::string digits = h.descr.substr(1);
  if (digits.empty() || digits.size() > 9 || digits.find_first_not_of("0123456789") != std::string::npos) {
    bad(path, "the type " + h.descr + " is not understood");
  }
  const int64_t width = std::stoll(digits) * (wide ? 4 : 1);
  const int64_t count = h.dims.count();
  if (checked_mul(count, width) > static_cast<int64_t>(bytes.size() - h.data_at)) bad(path, "the data is cut off");
  Tensor t(DType::STRING, h.dims);
  auto one = [&](int64_t to, int64_t from) {
    std::string& text = t.as<std::string>()[to];
    const char* data = bytes.data() + h.data_at + from * width;
    if (!wide) {
      text.assign(data, static_cast<size_t>(width));
      while (!text.empty() && text.back() == '\0') text.pop_back();
      return;
    }
    for (int64_t i = 0; i < width; i += 4) {
      uint32_t c = 0;
      std::memcpy(&c, data + i, 4);
      if (h.swap) c = __builtin_bswap32(c);
      if (c != 0) append_utf8(text, c);
    }
  };
  if (h.fortran) {
    for_each_fortran(h.dims, one);
  } else {
    for (int64_t i = 0; i < count; ++i) one(i, i);
  }
  return t;
}

std::string header_text(const std::string& descr, const Dims& dims) {
  std::string shape = "(";
  for (int64_t d : dims) shape += std::to_string(d) + ",";
  if (dims.rank() > 1) shape.pop_back();
  std::string text = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + "), }";
  text.append(64 - (10 + text.size() + 1) % 64, ' ');
  text += '\n';
  std::string header(kMagic, 6);
  header += {'\x01', '\x00', static_cast<char>(text.size() & 255), static_cast<char>(text.size() >> 8)};
  return header + text;
}

bool is_packed_integer(DType t) { return is_packed(t) && is_integer(t); }
// The type that holds the bytes of a packed integer type.
DType byte_type(DType t) { return is_signed_integer(t) ? DType::INT8 : DType::UINT8; }

// A tensor of a type that NumPy has, with the same values.
Tensor storable(const TensorView& view) {
  if (is_packed_integer(view.dtype)) return Tensor(byte_type(view.dtype), view.dims, view.data, nullptr);
  if (view.dtype != DType::BFLOAT16 && !is_small_float(view.dtype)) {
    return Tensor(view.dtype, view.dims, view.data, nullptr);
  }
  Tensor t(DType::FLOAT32, view.dims);
  for (int64_t i = 0; i < view.count(); ++i) {
    t.as<float>()[i] = is_small_float(view.dtype) ? small_float_to_float(view.dtype, view.as<uint8_t>()[i])
                                                  : static_cast<float>(view.as<bfloat16>()[i]);
  }
  return t;
}

void write_strings(const std::string& path, const TensorView& view) {
  std::vector<std::u32string> texts;
  size_t width = 1;
  for (int64_t i = 0; i < view.count(); ++i) {
    texts.push_back(from_utf8(view.as<std::string>()[i]));
    width = std::max(width, texts.back().size());
  }
  std::string bytes = header_text("<U" + std::to_string(width), view.dims);
  for (std::u32string& text : texts) {
    text.resize(width, U'\0');
    bytes.append(reinterpret_cast<const char*>(text.data()), width * 4);
  }
  write_file(path, bytes);
}

}  // namespace

Tensor read_npy(const std::string& path) { return parse_npy(path, read_file(path)); }

Tensor parse_npy(const std::string& path, const std::string& bytes) {
  const Header h = read_header(path, bytes);
  if (h.descr[0] == 'U' || h.descr[0] == 'S') return read_strings(path, h, bytes);
  const auto* known =
      std::find_if(std::begin(kDescrs), std::end(kDescrs), [&](const Descr& d) { return h.descr == d.text; });
  if (known == std::end(kDescrs)) bad(path, "the type " + h.descr + " is not supported");
  const TensorDesc desc{known->dtype, h.dims};
  if (desc.bytes() > static_cast<int64_t>(bytes.size() - h.data_at)) bad(path, "the data is cut off");
  Tensor t(desc.dtype, desc.dims);
  const size_t size = dtype_size(desc.dtype);
  char* to = t.as<char>();
  const char* from = bytes.data() + h.data_at;
  if (h.fortran) {
    for_each_fortran(desc.dims, [&](int64_t a, int64_t b) { std::memcpy(to + a * size, from + b * size, size); });
  } else if (desc.bytes() > 0) {
    std::memcpy(to, from, static_cast<size_t>(desc.bytes()));
  }
  if (h.swap) swap_bytes(to, t.count(), size);
  return t;
}

void write_npy(const std::string& path, const TensorView& tensor) {
  if (tensor.dtype == DType::STRING) return write_strings(path, tensor);
  const Tensor t = storable(tensor);
  const auto* known =
      std::find_if(std::begin(kDescrs), std::end(kDescrs), [&](const Descr& d) { return t.dtype() == d.dtype; });
  check_internal(known != std::end(kDescrs), "npy: no descriptor for the element type");
  const std::string order = dtype_size(t.dtype()) == 1 ? "|" : "<";
  std::string bytes = header_text(order + known->text, t.dims());
  if (t.count() > 0) bytes.append(t.as<char>(), static_cast<size_t>(t.bytes()));
  write_file(path, bytes);
}

Tensor convert_for(const Tensor& tensor, DType wanted) {
  const int64_t count = tensor.count();
  if (is_packed_integer(wanted) && tensor.dtype() == byte_type(wanted)) {
    for (int64_t i = 0; i < count; ++i) {
      const uint8_t byte = tensor.as<uint8_t>()[i];
      if (packed_element(wanted, byte) == byte) continue;
      const IntegerRange range = integer_range(wanted);
      throw Error(
          Code::ARGUMENT,
          std::to_string(tensor.to_i64()[static_cast<size_t>(i)]) + " is outside of " + std::string(dtype_name(wanted)),
          "give numbers from " + std::to_string(range.low) + " to " + std::to_string(range.high));
    }
    return Tensor(wanted, tensor.dims(), tensor.view().data, std::make_shared<Tensor>(tensor));
  }
  if (tensor.dtype() != DType::FLOAT32 || (wanted != DType::BFLOAT16 && !is_small_float(wanted))) return tensor;
  Tensor t(wanted, tensor.dims());
  for (int64_t i = 0; i < count; ++i) {
    if (wanted == DType::BFLOAT16) {
      t.as<bfloat16>()[i] = bfloat16(tensor.as<float>()[i]);
    } else {
      t.as<uint8_t>()[i] = float_to_small_float(wanted, tensor.as<float>()[i], true);
    }
  }
  return t;
}

}  // namespace deepjit::cli
