#include <algorithm>
#include <cstring>
#include <map>

#include "base/file.h"
#include "base/limits.h"
#include "base/sha256.h"
#include "engine/check.h"
#include "engine/format.h"
#include "engine/ledger_stream.h"
#include "engine/stream.h"
#include "ops/sequence/sequence.h"

namespace deepjit {

namespace {

// The bytes of an engine: in memory, or of a mapped file, which view() reads beside the mapping.
struct Source {
  std::span<const uint8_t> bytes;
  const MappedFile* file = nullptr;

  std::span<const uint8_t> view(size_t offset, size_t size, std::vector<uint8_t>& buffer) const {
    if (file == nullptr) return bytes.subspan(offset, size);
    buffer.resize(size);
    file->read(offset, buffer);
    return buffer;
  }
};

struct Extent {
  size_t offset = 0;
  size_t size = 0;
};

// Parses the PROGRAM section; every number is checked against what it indexes.
class ProgramReader {
 public:
  ProgramReader(std::span<const uint8_t> program, const Source& source, Extent weights, const Backing& backing)
      : in_(program), source_(source), weights_(weights), backing_(backing) {}

  Program read() {
    Program program = read_one();
    for (size_t n = in_.count(4); n > 0; --n) program.others.push_back(read_one());
    if (!in_.at_end()) ByteReader::fail("bytes are left over in the program section");
    check_programs(program);
    return program;
  }

 private:
  Program read_one() {
    Program p;
    p.name = in_.text();
    p.threads = in_.number<int32_t>();
    for (size_t n = in_.count(8); n > 0; --n) {
      std::string key = in_.text();
      p.metadata[std::move(key)] = in_.text();
    }
    for (size_t n = in_.count(4); n > 0; --n) p.buffers.push_back(buffer());
    for (size_t n = in_.count(4); n > 0; --n) p.steps.push_back(step());
    for (size_t n = in_.count(4); n > 0; --n) {
      Block b;
      b.inputs = numbers();
      b.outputs = numbers();
      b.steps = numbers();
      p.blocks.push_back(std::move(b));
    }
    for (size_t n = in_.count(4); n > 0; --n) p.inputs.push_back(input());
    for (size_t n = in_.count(4); n > 0; --n) {
      ProgramOutput o;
      o.name = in_.text();
      o.buffer = in_.number<int32_t>();
      p.outputs.push_back(std::move(o));
    }
    p.ledger = read_ledger(in_, dims_);
    return p;
  }

  std::vector<int32_t> numbers() {
    std::vector<int32_t> out;
    for (size_t n = in_.count(4); n > 0; --n) out.push_back(in_.number<int32_t>());
    return out;
  }

  Dims dims() {
    Dims d;
    const auto rank = in_.number<uint32_t>();
    if (rank > kMaxRank) ByteReader::fail("a rank is above 16");
    for (uint32_t i = 0; i < rank; ++i) {
      d.push_back(in_.number<int64_t>());
      if (d.back() < 0) ByteReader::fail("a dimension is negative");
    }
    return d;
  }

  DType dtype() {
    const auto value = static_cast<DType>(in_.number<uint8_t>());
    if (dtype_name(value) == "unknown") ByteReader::fail("an element type is unknown");
    return value;
  }

  Tensor tensor() {
    const DType type = dtype();
    if (type == DType::UNDEFINED) return {};
    if (is_collection(type)) ByteReader::fail("a constant is a collection");
    const Dims d = dims();
    const int64_t count = d.count();
    if (type == DType::STRING) {
      in_.need(static_cast<uint64_t>(count), sizeof(uint32_t));
      Tensor t(type, d);
      for (int64_t i = 0; i < count; ++i) t.as<std::string>()[i] = in_.text();
      return t;
    }
    const auto offset = in_.number<uint64_t>();
    const auto bytes = static_cast<uint64_t>(checked_mul(count, static_cast<int64_t>(dtype_size(type))));
    if (offset > weights_.size || bytes > weights_.size - offset || offset % 64 != 0) {
      ByteReader::fail("a constant lies outside the weights section");
    }
    const size_t at = weights_.offset + offset;
    if (source_.file == nullptr || bytes > kPrivateBytes) {
      return Tensor(type, d, source_.bytes.data() + at, backing_.memory());
    }
    Tensor& copy = copies_[{offset, bytes}];
    if (copy.defined()) return Tensor(type, d, copy.view().data, std::make_shared<const Tensor>(copy));
    copy = Tensor(type, d);
    source_.file->read(at, {static_cast<uint8_t*>(copy.view().data), bytes});
    return copy;
  }

  // An optional of a sequence of tensors is the deepest type there is.
  TensorType type(int depth = 0) {
    TensorType t;
    t.dtype = dtype();
    if (in_.number<uint8_t>() != 0) {
      std::vector<Dim> d;
      const size_t rank = in_.count(1);
      if (rank > kMaxRank) ByteReader::fail("a rank is above 16");
      for (size_t i = 0; i < rank; ++i) d.push_back(dims_.read(in_));
      t.shape = Shape(std::move(d));
    }
    if (!is_collection(t.dtype)) return t;
    if (depth == 2) ByteReader::fail("a type nests too deep");
    if (!t.shape.ranked() || t.shape.rank() != 1) ByteReader::fail("a collection has a wrong rank");
    t.element = std::make_shared<const TensorType>(type(depth + 1));
    return t;
  }

  Buffer buffer() {
    Buffer b;
    b.name = in_.text();
    b.type = type();
    b.is_constant = in_.number<uint8_t>() != 0;
    b.constant = tensor();
    return b;
  }

  Attribute attribute() {
    switch (in_.number<uint8_t>()) {
      case 0:
        return in_.number<int64_t>();
      case 1:
        return in_.number<float>();
      case 2:
        return in_.text();
      case 3:
        return list<int64_t>(8, [&] { return in_.number<int64_t>(); });
      case 4:
        return list<float>(4, [&] { return in_.number<float>(); });
      case 5:
        return list<std::string>(4, [&] { return in_.text(); });
      case 6:
        return tensor();
      default:
        ByteReader::fail("an attribute kind is unknown");
    }
  }

  template <typename T, typename F>
  std::vector<T> list(size_t item_bytes, F&& read_one) {
    std::vector<T> out;
    for (size_t n = in_.count(item_bytes); n > 0; --n) out.push_back(read_one());
    return out;
  }

  Step step() {
    Step s;
    s.op = in_.text();
    s.name = in_.text();
    for (size_t n = in_.count(5); n > 0; --n) {
      const std::string name = in_.text();
      s.attrs.set(name, attribute());
    }
    s.inputs = numbers();
    s.outputs = numbers();
    s.blocks = numbers();
    s.origins = list<std::string>(4, [&] { return in_.text(); });
    s.tactic.provider = in_.text();
    s.tactic.variant = in_.text();
    for (size_t n = in_.count(9); n > 0; --n) {
      PackedOperand p;
      p.input = in_.number<int32_t>();
      p.format = in_.text();
      p.data = tensor();
      s.tactic.packed.push_back(std::move(p));
    }
    s.tactic.time_us = in_.number<double>();
    s.tactic.max_error = in_.number<double>();
    return s;
  }

  ProgramInput input() {
    ProgramInput i;
    i.name = in_.text();
    i.buffer = in_.number<int32_t>();
    i.default_value = tensor();
    i.has_range = in_.number<uint8_t>() != 0;
    if (!i.has_range) return i;
    i.range = {dims(), dims(), dims()};
    return i;
  }

  static constexpr size_t kPrivateBytes = 1024;  // constants up to here, which may decide shapes, are copied

  ByteReader in_;
  const Source& source_;
  Extent weights_;
  const Backing& backing_;
  DimReader dims_;
  std::map<std::pair<uint64_t, uint64_t>, Tensor> copies_;  // of small constants, by place
};

std::vector<LedgerEntry> edges_of(std::span<const uint8_t> bytes, const Program& program) {
  ByteReader in(bytes);
  DimReader dims;
  std::vector<LedgerEntry> edges = read_ledger(in, dims);
  if (!in.at_end()) ByteReader::fail("bytes are left over in the section of edges");
  for (const LedgerEntry& entry : edges) check_ledger_entry(program, entry);
  return edges;
}

void check_hash(const Sha256& hash, const uint8_t* expected, const char* what) {
  if (std::memcmp(hash.data(), expected, kHashBytes) == 0) return;
  throw Error(Code::ENGINE_CHECKSUM, std::string("the engine is damaged: the checksum of ") + what + " does not match",
              "build the engine again");
}

void check_zero(const Source& source, size_t from, size_t to) {
  constexpr size_t kPiece = size_t{1} << 20;
  std::vector<uint8_t> buffer;
  for (size_t at = from; at < to; at += kPiece) {
    const auto bytes = source.view(at, std::min(kPiece, to - at), buffer);
    if (std::all_of(bytes.begin(), bytes.end(), [](uint8_t b) { return b == 0; })) continue;
    throw Error(Code::ENGINE_CHECKSUM, "the engine is damaged: the space between sections is not empty",
                "build the engine again");
  }
}

// The number of sections that the header claims.
size_t check_header(const Source& source) {
  std::vector<uint8_t> buffer;
  const auto start = source.view(0, std::min(kHeaderBytes, source.bytes.size()), buffer);
  if (start.size() < kHeaderBytes || std::memcmp(start.data(), kEngineMagic, sizeof kEngineMagic) != 0) {
    throw Error(Code::ENGINE_MAGIC, "this is not a deepjit engine",
                "build one with: deepjit build MODEL.onnx -o M.dje");
  }
  ByteReader header(start.subspan(8));
  const auto version = header.number<uint32_t>();
  if (version != kEngineVersion) {
    throw Error(Code::ENGINE_VERSION,
                "the engine has format version " + std::to_string(version) + ", this build reads " +
                    std::to_string(kEngineVersion),
                "build the engine again with this version");
  }
  const size_t count = header.number<uint32_t>();
  const auto file_size = header.number<uint64_t>();
  if (count > limits::engine_sections) ByteReader::fail("it claims too many sections");
  if (source.bytes.size() < kHeaderBytes + count * kTableEntryBytes + kHashBytes || file_size != source.bytes.size()) {
    ByteReader::fail("the file has " + std::to_string(source.bytes.size()) + " bytes, its header says " +
                     std::to_string(file_size));
  }
  return count;
}

// Checks the header, the table, the gaps and all hashes; returns where the sections lie.
std::map<Section, Extent> find_sections(const Source& source) {
  const size_t count = check_header(source);
  const size_t table_end = kHeaderBytes + count * kTableEntryBytes;
  std::vector<uint8_t> buffer;
  const auto head = source.view(0, table_end + kHashBytes, buffer);
  check_hash(sha256(head.first(table_end)), head.data() + table_end, "the header");
  std::map<Section, Extent> sections;
  size_t end = table_end + kHashBytes;
  for (size_t i = 0; i < count; ++i) {
    const auto entry = head.subspan(kHeaderBytes + i * kTableEntryBytes, kTableEntryBytes);
    ByteReader in(entry);
    const auto kind = static_cast<Section>(in.number<uint32_t>());
    in.number<uint32_t>();
    const auto offset = in.number<uint64_t>();
    const auto size = in.number<uint64_t>();
    const size_t total = source.bytes.size();
    if (offset < end || offset > total || size > total - offset || offset % kSectionAlign != 0) {
      ByteReader::fail("a section lies outside the file");
    }
    check_zero(source, end, offset);
    sections[kind] = {offset, size};
    const Sha256 hash = sha256_of_chunks(size, [&, offset = offset](size_t at, size_t n, std::vector<uint8_t>& piece) {
      return source.view(offset + at, n, piece);
    });
    check_hash(hash, entry.data() + 32, "a section");
    end = offset + size;
  }
  check_zero(source, end, source.bytes.size());
  return sections;
}

LoadedFile read_source(const Source& source, Backing backing) {
  auto sections = find_sections(source);
  if (sections.count(Section::PROGRAM) == 0 || sections.count(Section::WEIGHTS) == 0) {
    ByteReader::fail("a section is missing");
  }
  auto section = [&](Section kind, std::vector<uint8_t>& buffer) {
    return source.view(sections[kind].offset, sections[kind].size, buffer);
  };
  auto text = [&](Section kind) {
    std::vector<uint8_t> buffer;
    const auto bytes = section(kind, buffer);
    return std::string(bytes.begin(), bytes.end());
  };
  LoadedFile loaded;
  try {
    std::vector<uint8_t> buffer;
    const auto program = section(Section::PROGRAM, buffer);
    loaded.file.program = ProgramReader(program, source, sections[Section::WEIGHTS], backing).read();
    if (sections.count(Section::EDGES) != 0) {
      loaded.file.edges = edges_of(section(Section::EDGES, buffer), loaded.file.program);
    }
  } catch (const Error& e) {
    if (static_cast<int>(e.code()) / 100 == 4) throw;
    ByteReader::fail(e.message());
  }
  loaded.file.graph_text = text(Section::GRAPH);
  loaded.file.lock_text = text(Section::LOCK);
  loaded.backing = std::move(backing);
  return loaded;
}

}  // namespace

std::map<Section, std::span<const uint8_t>> open_sections(std::span<const uint8_t> bytes) {
  std::map<Section, std::span<const uint8_t>> out;
  for (const auto& [kind, extent] : find_sections({bytes})) out[kind] = bytes.subspan(extent.offset, extent.size);
  return out;
}

LoadedFile read_engine(std::span<const uint8_t> bytes, std::shared_ptr<const void> owner) {
  return read_source({bytes}, std::move(owner));
}

LoadedFile load_engine(const std::string& path) {
  const auto file = std::make_shared<const MappedFile>(path);
  LoadedFile loaded = read_source({file->bytes(), file.get()}, file);
  if (!file->unchanged())
    throw Error(Code::ENGINE_CHANGED, "\"" + path + "\" was changed while it was loaded", "load it again");
  return loaded;
}

}  // namespace deepjit
