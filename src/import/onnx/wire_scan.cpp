#include "import/onnx/wire_scan.h"

#include <array>
#include <vector>

#include "base/limits.h"

namespace deepjit::importer {

namespace {

// Kinds of length-delimited fields. The scan follows all up to SHAPE into their fields.
enum class Kind {
  MODEL,
  GRAPH,
  FUNCTION,
  TRAINING,
  NODE,
  ATTRIBUTE,
  TENSOR,
  SPARSE,
  VALUE_INFO,
  TYPE,
  ELEMENT,  // of a sequence or optional
  MAP,
  TENSOR_TYPE,
  SHAPE,
  MESSAGE,  // any other message
  TEXT,
  BYTES,
};

struct Field {
  Kind parent;
  uint64_t number;
  Kind kind;
};

// The fields that are messages, and those that are one block of bytes whatever their length. All others are text.
constexpr Field kFields[] = {
    {Kind::MODEL, 7, Kind::GRAPH},          {Kind::MODEL, 8, Kind::MESSAGE},      {Kind::MODEL, 14, Kind::MESSAGE},
    {Kind::MODEL, 20, Kind::TRAINING},      {Kind::MODEL, 25, Kind::FUNCTION},    {Kind::MODEL, 26, Kind::MESSAGE},
    {Kind::TRAINING, 1, Kind::GRAPH},       {Kind::TRAINING, 2, Kind::GRAPH},     {Kind::TRAINING, 3, Kind::MESSAGE},
    {Kind::TRAINING, 4, Kind::MESSAGE},     {Kind::GRAPH, 1, Kind::NODE},         {Kind::GRAPH, 5, Kind::TENSOR},
    {Kind::GRAPH, 11, Kind::VALUE_INFO},    {Kind::GRAPH, 12, Kind::VALUE_INFO},  {Kind::GRAPH, 13, Kind::VALUE_INFO},
    {Kind::GRAPH, 14, Kind::MESSAGE},       {Kind::GRAPH, 15, Kind::SPARSE},      {Kind::GRAPH, 16, Kind::MESSAGE},
    {Kind::FUNCTION, 7, Kind::NODE},        {Kind::FUNCTION, 9, Kind::MESSAGE},   {Kind::FUNCTION, 11, Kind::ATTRIBUTE},
    {Kind::FUNCTION, 12, Kind::VALUE_INFO}, {Kind::FUNCTION, 14, Kind::MESSAGE},  {Kind::NODE, 5, Kind::ATTRIBUTE},
    {Kind::NODE, 9, Kind::MESSAGE},         {Kind::NODE, 10, Kind::MESSAGE},      {Kind::ATTRIBUTE, 5, Kind::TENSOR},
    {Kind::ATTRIBUTE, 6, Kind::GRAPH},      {Kind::ATTRIBUTE, 7, Kind::BYTES},    {Kind::ATTRIBUTE, 8, Kind::BYTES},
    {Kind::ATTRIBUTE, 10, Kind::TENSOR},    {Kind::ATTRIBUTE, 11, Kind::GRAPH},   {Kind::ATTRIBUTE, 14, Kind::TYPE},
    {Kind::ATTRIBUTE, 15, Kind::TYPE},      {Kind::ATTRIBUTE, 22, Kind::SPARSE},  {Kind::ATTRIBUTE, 23, Kind::SPARSE},
    {Kind::TENSOR, 1, Kind::BYTES},         {Kind::TENSOR, 3, Kind::MESSAGE},     {Kind::TENSOR, 4, Kind::BYTES},
    {Kind::TENSOR, 5, Kind::BYTES},         {Kind::TENSOR, 7, Kind::BYTES},       {Kind::TENSOR, 9, Kind::BYTES},
    {Kind::TENSOR, 10, Kind::BYTES},        {Kind::TENSOR, 11, Kind::BYTES},      {Kind::TENSOR, 13, Kind::MESSAGE},
    {Kind::TENSOR, 16, Kind::MESSAGE},      {Kind::SPARSE, 1, Kind::TENSOR},      {Kind::SPARSE, 2, Kind::TENSOR},
    {Kind::VALUE_INFO, 2, Kind::TYPE},      {Kind::VALUE_INFO, 4, Kind::MESSAGE}, {Kind::TYPE, 1, Kind::TENSOR_TYPE},
    {Kind::TYPE, 4, Kind::ELEMENT},         {Kind::TYPE, 5, Kind::MAP},           {Kind::TYPE, 8, Kind::TENSOR_TYPE},
    {Kind::TYPE, 9, Kind::ELEMENT},         {Kind::ELEMENT, 1, Kind::TYPE},       {Kind::MAP, 2, Kind::TYPE},
    {Kind::TENSOR_TYPE, 2, Kind::SHAPE},    {Kind::SHAPE, 1, Kind::MESSAGE},
};

bool is_followed(Kind kind) { return kind < Kind::MESSAGE; }

using FieldTable = std::array<std::array<Kind, 32>, static_cast<size_t>(Kind::MESSAGE)>;

constexpr FieldTable make_table() {
  FieldTable table{};
  for (auto& row : table) {
    for (Kind& kind : row) kind = Kind::TEXT;
  }
  for (const Field& field : kFields) table[static_cast<size_t>(field.parent)][field.number] = field.kind;
  return table;
}

Kind kind_of_field(Kind parent, uint64_t number) {
  static constexpr FieldTable kTable = make_table();
  return number < 32 ? kTable[static_cast<size_t>(parent)][number] : Kind::TEXT;
}

bool is_model_field(uint64_t field) {
  return (field >= 1 && field <= 8) || field == 14 || field == 20 || field == 25 || field == 26;
}

class Scanner {
 public:
  Scanner(std::span<const uint8_t> bytes, const ImportOptions& options) : bytes_(bytes), options_(options) {}

  void run() {
    stack_.push_back({Kind::MODEL, bytes_.size()});
    while (!stack_.empty()) {
      if (at_ == stack_.back().end) {
        if (stack_.back().kind == Kind::GRAPH) --depth_;
        stack_.pop_back();
        continue;
      }
      field();
    }
  }

 private:
  struct Frame {
    Kind kind;
    size_t end;
  };

  [[noreturn]] void bad() const {
    throw Error(Code::PARSE, "the bytes are not an ONNX model: malformed protobuf at offset " + std::to_string(at_),
                "check that the file is an ONNX model and was transferred in binary");
  }
  // The current message ends before its field does.
  [[noreturn]] void too_short() const {
    if (stack_.back().end != bytes_.size()) bad();
    throw Error(Code::TRUNCATED, "the model ends after " + std::to_string(bytes_.size()) + " bytes, inside a field",
                "the file is incomplete: download or export it again");
  }

  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      if (at_ == stack_.back().end) too_short();
      const uint8_t byte = bytes_[at_++];
      if (shift < 64) value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if ((byte & 0x80) == 0) return value;
    }
    bad();
  }

  void skip(uint64_t n) {
    if (n > stack_.back().end - at_) too_short();
    at_ += n;
  }

  void field() {
    const size_t start = at_;
    const uint64_t tag = varint();
    const uint64_t number = tag >> 3;
    if (number == 0 || (stack_.back().kind == Kind::MODEL && start == 0 && !is_model_field(number))) bad();
    switch (tag & 7) {
      case 0:
        varint();
        return;
      case 1:
        return skip(8);
      case 5:
        return skip(4);
      case 2:
        return delimited(number);
      default:
        bad();
    }
  }

  static void count(int64_t& counter, int64_t limit, const char* what) {
    if (++counter <= limit) return;
    throw Error(Code::LIMIT, "the model has more than " + std::to_string(limit) + " " + what);
  }

  void delimited(uint64_t number) {
    const uint64_t length = varint();
    if (length > stack_.back().end - at_) too_short();
    const Kind kind = kind_of_field(stack_.back().kind, number);
    if (kind == Kind::NODE) count(nodes_, options_.max_nodes, "nodes");
    if (kind <= Kind::MESSAGE) count(messages_, limits::model_messages, "nodes, tensors, attributes and other parts");
    if (kind == Kind::TEXT) count(strings_, limits::model_strings, "names and other texts");
    if (kind == Kind::GRAPH && ++depth_ > options_.max_depth + 1) {
      throw Error(Code::DEPTH, "subgraphs nest deeper than " + std::to_string(options_.max_depth) + " levels");
    }
    if (!is_followed(kind)) return skip(length);
    // A level of graphs takes three messages; nothing else nests, but types claim to.
    if (stack_.size() > static_cast<size_t>(3 * options_.max_depth) + 50) {
      throw Error(Code::DEPTH, "the model's messages nest deeper than " + std::to_string(stack_.size()) + " levels");
    }
    stack_.push_back({kind, at_ + static_cast<size_t>(length)});
  }

  std::span<const uint8_t> bytes_;
  const ImportOptions& options_;
  size_t at_ = 0;
  std::vector<Frame> stack_;
  int64_t nodes_ = 0;
  int64_t messages_ = 0;
  int64_t strings_ = 0;
  int depth_ = 0;
};

}  // namespace

void scan_wire(std::span<const uint8_t> bytes, const ImportOptions& options) {
  if (bytes.empty()) throw Error(Code::PARSE, "the model is empty (0 bytes)");
  Scanner(bytes, options).run();
}

}  // namespace deepjit::importer
