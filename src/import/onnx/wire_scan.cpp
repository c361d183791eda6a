#include "import/onnx/wire_scan.h"

#include <vector>

namespace deepjit::importer {

namespace {

enum class Kind { MODEL, GRAPH, FUNCTION, NODE, ATTRIBUTE, OTHER };

// The kind of message in a length-delimited field, as far as the scan follows it.
Kind kind_of_field(Kind parent, uint64_t field) {
  switch (parent) {
    case Kind::MODEL:
      return field == 7 ? Kind::GRAPH : field == 25 ? Kind::FUNCTION : Kind::OTHER;
    case Kind::GRAPH:
      return field == 1 ? Kind::NODE : Kind::OTHER;
    case Kind::FUNCTION:
      return field == 7 ? Kind::NODE : Kind::OTHER;
    case Kind::NODE:
      return field == 5 ? Kind::ATTRIBUTE : Kind::OTHER;
    case Kind::ATTRIBUTE:
      return field == 6 || field == 11 ? Kind::GRAPH : Kind::OTHER;
    case Kind::OTHER:
      break;
  }
  return Kind::OTHER;
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
        return message(number);
      default:
        bad();
    }
  }

  void message(uint64_t number) {
    const uint64_t length = varint();
    if (length > stack_.back().end - at_) too_short();
    const Kind kind = kind_of_field(stack_.back().kind, number);
    if (kind == Kind::OTHER) return skip(length);
    if (kind == Kind::NODE && ++nodes_ > options_.max_nodes) {
      throw Error(Code::LIMIT, "the model has more than " + std::to_string(options_.max_nodes) + " nodes");
    }
    if (kind == Kind::GRAPH && ++depth_ > options_.max_depth + 1) {
      throw Error(Code::DEPTH, "subgraphs nest deeper than " + std::to_string(options_.max_depth) + " levels");
    }
    stack_.push_back({kind, at_ + static_cast<size_t>(length)});
  }

  std::span<const uint8_t> bytes_;
  const ImportOptions& options_;
  size_t at_ = 0;
  std::vector<Frame> stack_;
  int64_t nodes_ = 0;
  int depth_ = 0;
};

}  // namespace

void scan_wire(std::span<const uint8_t> bytes, const ImportOptions& options) {
  if (bytes.empty()) throw Error(Code::PARSE, "the model is empty (0 bytes)");
  Scanner(bytes, options).run();
}

}  // namespace deepjit::importer
