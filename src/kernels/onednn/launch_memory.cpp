#include <algorithm>
#include <map>
#include <numeric>

#include "kernels/onednn/memory.h"
#include "oneapi/dnnl/dnnl_debug.h"

namespace deepjit::onednn {

namespace {

constexpr int kFirstTag = dnnl_a;

const std::map<std::string, dnnl_format_tag_t>& tags_by_name() {
  static const std::map<std::string, dnnl_format_tag_t> tags = [] {
    std::map<std::string, dnnl_format_tag_t> map;
    for (int t = kFirstTag; t < dnnl_format_tag_last; ++t) {
      const auto tag = static_cast<dnnl_format_tag_t>(t);
      map.emplace(dnnl_fmt_tag2str(tag), tag);
    }
    return map;
  }();
  return tags;
}

// The name of the tag that gives exactly this descriptor, or "".
std::string tag_name(const memory::desc& desc) {
  const memory::dims dims = desc.get_dims();
  const auto type = static_cast<dnnl_data_type_t>(desc.get_data_type());
  for (int t = kFirstTag; t < dnnl_format_tag_last; ++t) {
    dnnl_memory_desc_t made = nullptr;
    const auto tag = static_cast<dnnl_format_tag_t>(t);
    const auto rank = static_cast<int>(dims.size());
    if (dnnl_memory_desc_create_with_tag(&made, rank, dims.data(), type, tag) != dnnl_success) continue;
    const bool same = dnnl_memory_desc_equal(made, desc.get()) != 0;
    dnnl_memory_desc_destroy(made);
    if (same) return dnnl_fmt_tag2str(tag);
  }
  return "";
}

[[noreturn]] void bad_format(const std::string& text) {
  throw Error(Code::ENGINE_RANGE, "packed operand has the unknown layout \"" + text + "\"");
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

struct TypeName {
  const char* name;
  memory::data_type type;
};
constexpr TypeName kTypeNames[] = {{"f32", memory::data_type::f32}, {"s8", memory::data_type::s8},
                                   {"u8", memory::data_type::u8},   {"s32", memory::data_type::s32},
                                   {"f16", memory::data_type::f16}, {"bf16", memory::data_type::bf16}};

}  // namespace

const dnnl::engine& engine() {
  static const dnnl::engine instance(dnnl::engine::kind::cpu, 0);
  return instance;
}

dnnl::stream& stream() {
  static thread_local dnnl::stream instance(engine());
  return instance;
}

memory::dims to_dims(std::span<const int64_t> dims) { return {dims.begin(), dims.end()}; }

memory::data_type to_data_type(DType dtype) {
  switch (dtype) {
    case DType::FLOAT32:
      return memory::data_type::f32;
    case DType::INT8:
      return memory::data_type::s8;
    case DType::UINT8:
      return memory::data_type::u8;
    case DType::INT32:
      return memory::data_type::s32;
    case DType::FLOAT16:
      return memory::data_type::f16;
    case DType::BFLOAT16:
      return memory::data_type::bf16;
    default:
      return memory::data_type::undef;
  }
}

memory::desc plain_desc(DType dtype, std::span<const int64_t> dims) {
  std::vector<int> order(dims.size());
  std::iota(order.begin(), order.end(), 0);
  return permuted_desc(dtype, dims, order);
}

memory::desc permuted_desc(DType dtype, std::span<const int64_t> logical, std::span<const int> order) {
  // A 0-d tensor is a vector of one element.
  if (logical.empty()) return memory::desc({1}, to_data_type(dtype), memory::dims{1});
  memory::dims strides(logical.size(), 1);
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    const auto d = static_cast<size_t>(order[i]);
    strides[d] = stride;
    stride *= std::max<int64_t>(logical[d], 1);
  }
  return memory::desc(to_dims(logical), to_data_type(dtype), strides);
}

memory::desc any_desc(DType dtype, std::span<const int64_t> dims) {
  return memory::desc(to_dims(dims), to_data_type(dtype), memory::format_tag::any);
}

std::string describe(const memory::desc& stored, const memory::desc& plain) {
  const std::string stored_tag = tag_name(stored), plain_tag = tag_name(plain);
  if (stored_tag.empty() || plain_tag.empty()) return "";
  std::string text;
  for (const TypeName& entry : kTypeNames) {
    if (entry.type == stored.get_data_type()) text = entry.name;
  }
  if (text.empty()) return "";
  char separator = ':';
  for (int64_t d : stored.get_dims()) {
    text += separator + std::to_string(d);
    separator = 'x';
  }
  return text + ":" + stored_tag + ":" + plain_tag;
}

memory::desc repeated(const memory::desc& one, int64_t count) {
  memory::dims dims = one.get_dims();
  const std::string tag = tag_name(one);
  if (tag.empty() || tag[0] != 'a' || dims[0] != 1) return memory::desc();
  dims[0] = count;
  const memory::desc all(dims, one.get_data_type(), static_cast<memory::format_tag>(tags_by_name().at(tag)), true);
  return all && all.get_size() == one.get_size() * static_cast<size_t>(count) ? all : memory::desc();
}

StoredOperand parse_stored(const std::string& text, int64_t bytes) {
  const std::vector<std::string> parts = split(text, ':');
  if (parts.size() != 4) bad_format(text);
  memory::data_type type = memory::data_type::undef;
  for (const TypeName& entry : kTypeNames) {
    if (parts[0] == entry.name) type = entry.type;
  }
  if (type == memory::data_type::undef) bad_format(text);
  memory::dims dims;
  int64_t count = 1;
  for (const std::string& part : split(parts[1], 'x')) {
    if (part.empty() || part.size() > 18 || part.find_first_not_of("0123456789") != std::string::npos) bad_format(text);
    dims.push_back(std::stoll(part));
    if (dims.back() < 1 || dims.back() > bytes / count) bad_format(text);
    count *= dims.back();
  }
  StoredOperand result;
  const auto& tags = tags_by_name();
  const auto stored = tags.find(parts[2]), plain = tags.find(parts[3]);
  if (stored == tags.end() || plain == tags.end()) bad_format(text);
  result.stored = memory::desc(dims, type, static_cast<memory::format_tag>(stored->second), true);
  result.plain = memory::desc(dims, type, static_cast<memory::format_tag>(plain->second), true);
  if (!result.stored || !result.plain || result.stored.get_size() != static_cast<size_t>(bytes)) bad_format(text);
  return result;
}

void reorder_now(const memory::desc& from, const void* source, const memory::desc& to, void* target) {
  memory src(from, engine(), const_cast<void*>(source));
  memory dst(to, engine(), target);
  dnnl::reorder(src, dst).execute(stream(), src, dst);
  stream().wait();
}

void rethrow(const dnnl::error& error) {
  if (error.status == dnnl_out_of_memory) throw Error(Code::HOST_OOM, std::string("oneDNN: ") + error.what());
  throw Error(Code::INTERNAL, std::string("oneDNN: ") + error.what() + " (" + dnnl_status2str(error.status) + ")");
}

void check_status(dnnl_status_t status, const char* what) {
  if (status == dnnl_success) return;
  const Code code = status == dnnl_out_of_memory ? Code::HOST_OOM : Code::INTERNAL;
  throw Error(code, std::string("oneDNN: ") + what + " failed: " + dnnl_status2str(status));
}

}  // namespace deepjit::onednn
