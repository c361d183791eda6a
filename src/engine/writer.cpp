#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/sha256.h"
#include "engine/format.h"
#include "engine/ledger_stream.h"
#include "engine/stream.h"

namespace deepjit {

namespace {

class ProgramWriter {
 public:
  void write(const Program& program) {
    write_one(program);
    out_.list(program.others, [&](const Program& other) {
      check_internal(other.others.empty(), "the program of a further range has ranges of its own");
      write_one(other);
    });
  }

  std::vector<uint8_t>& program_bytes() { return out_.bytes(); }
  std::vector<uint8_t>& weight_bytes() { return weights_.bytes(); }

 private:
  void write_one(const Program& program) {
    out_.text(program.name);
    out_.number(program.threads);
    out_.list(program.metadata, [&](const auto& entry) {
      out_.text(entry.first);
      out_.text(entry.second);
    });
    out_.list(program.buffers, [&](const Buffer& b) { buffer(b); });
    out_.list(program.steps, [&](const Step& s) { step(s); });
    out_.list(program.blocks, [&](const Block& b) {
      numbers(b.inputs);
      numbers(b.outputs);
      numbers(b.steps);
    });
    out_.list(program.inputs, [&](const ProgramInput& i) { input(i); });
    out_.list(program.outputs, [&](const ProgramOutput& o) {
      out_.text(o.name);
      out_.number(o.buffer);
    });
    write_ledger(out_, program.ledger);
  }

  void numbers(const std::vector<int32_t>& values) {
    out_.list(values, [&](int32_t v) { out_.number(v); });
  }

  void dims(const Dims& d) {
    out_.number(static_cast<uint32_t>(d.rank()));
    for (int64_t v : d) out_.number(v);
  }

  void tensor(const Tensor& t) {
    out_.number(static_cast<uint8_t>(t.dtype()));
    if (!t.defined()) return;
    check_internal(!is_object(t.dtype()) || t.dtype() == DType::STRING, "a collection is no constant");
    dims(t.dims());
    if (t.dtype() == DType::STRING) {
      for (int64_t i = 0; i < t.count(); ++i) out_.text(t.as<std::string>()[i]);
      return;
    }
    const auto [place, fresh] = places_.try_emplace({t.view().data, t.bytes()}, 0);
    if (fresh) {
      weights_.pad_to(64);
      place->second = weights_.bytes().size();
      weights_.raw(t.view().data, static_cast<size_t>(t.bytes()));
    }
    out_.number(place->second);
  }

  void type(const TensorType& t) {
    out_.number(static_cast<uint8_t>(t.dtype));
    out_.number(static_cast<uint8_t>(t.shape.ranked()));
    if (t.shape.ranked()) out_.list(t.shape.dims(), [&](const Dim& d) { write_dim(out_, d); });
    if (t.element != nullptr) type(*t.element);  // collections only
  }

  void buffer(const Buffer& b) {
    out_.text(b.name);
    type(b.type);
    out_.number(static_cast<uint8_t>(b.is_constant));
    tensor(b.constant);
  }

  void attribute(const Attribute& value) {
    out_.number(static_cast<uint8_t>(value.index()));
    switch (value.index()) {
      case 0:
        return out_.number(std::get<int64_t>(value));
      case 1:
        return out_.number(std::get<float>(value));
      case 2:
        return out_.text(std::get<std::string>(value));
      case 3:
        return out_.list(std::get<3>(value), [&](int64_t v) { out_.number(v); });
      case 4:
        return out_.list(std::get<4>(value), [&](float v) { out_.number(v); });
      case 5:
        return out_.list(std::get<5>(value), [&](const std::string& v) { out_.text(v); });
      default:
        return tensor(std::get<Tensor>(value));
    }
  }

  void step(const Step& s) {
    out_.text(s.op);
    out_.text(s.name);
    out_.list(s.attrs.all(), [&](const auto& entry) {
      out_.text(entry.first);
      attribute(entry.second);
    });
    numbers(s.inputs);
    numbers(s.outputs);
    numbers(s.blocks);
    out_.list(s.origins, [&](const std::string& v) { out_.text(v); });
    out_.text(s.tactic.provider);
    out_.text(s.tactic.variant);
    out_.list(s.tactic.packed, [&](const PackedOperand& p) {
      out_.number(p.input);
      out_.text(p.format);
      tensor(p.data);
    });
    out_.number(s.tactic.time_us);
    out_.number(s.tactic.max_error);
  }

  void input(const ProgramInput& i) {
    out_.text(i.name);
    out_.number(i.buffer);
    tensor(i.default_value);
    out_.number(static_cast<uint8_t>(i.has_range));
    if (!i.has_range) return;
    dims(i.range.min);
    dims(i.range.opt);
    dims(i.range.max);
  }

  ByteWriter out_;
  ByteWriter weights_;
  std::map<std::pair<const void*, int64_t>, uint64_t> places_;  // of data that is written already
};

size_t aligned(size_t value) { return (value + kSectionAlign - 1) / kSectionAlign * kSectionAlign; }

}  // namespace

std::vector<uint8_t> write_engine(const EngineFile& file) {
  ProgramWriter program;
  program.write(file.program);
  ByteWriter edges;
  write_ledger(edges, file.edges);
  auto bytes_of = [](const std::string& text) { return std::vector<uint8_t>(text.begin(), text.end()); };
  return seal_sections({
      {Section::PROGRAM, std::move(program.program_bytes())},
      {Section::GRAPH, bytes_of(file.graph_text)},
      {Section::LOCK, bytes_of(file.lock_text)},
      {Section::EDGES, std::move(edges.bytes())},
      {Section::WEIGHTS, std::move(program.weight_bytes())},
  });
}

std::vector<uint8_t> seal_sections(const std::vector<std::pair<Section, std::vector<uint8_t>>>& sections) {
  size_t end = aligned(kHeaderBytes + sections.size() * kTableEntryBytes + kHashBytes);
  std::vector<size_t> offsets;
  for (const auto& [kind, bytes] : sections) {
    offsets.push_back(end);
    end = aligned(end + bytes.size());
  }
  ByteWriter out;
  out.bytes().reserve(end);
  out.raw(kEngineMagic, sizeof kEngineMagic);
  out.number(kEngineVersion);
  out.number(static_cast<uint32_t>(sections.size()));
  out.number(static_cast<uint64_t>(end));
  out.number(uint64_t{0});
  for (size_t i = 0; i < sections.size(); ++i) {
    out.number(static_cast<uint32_t>(sections[i].first));
    out.number(uint32_t{0});
    out.number(static_cast<uint64_t>(offsets[i]));
    out.number(static_cast<uint64_t>(sections[i].second.size()));
    out.number(uint64_t{0});
    const Sha256 hash = sha256_of_chunks(sections[i].second);
    out.raw(hash.data(), hash.size());
  }
  const Sha256 header_hash = sha256(out.bytes());
  out.raw(header_hash.data(), header_hash.size());
  for (const auto& [kind, bytes] : sections) {
    out.pad_to(kSectionAlign);
    out.raw(bytes.data(), bytes.size());
  }
  out.pad_to(kSectionAlign);
  return std::move(out.bytes());
}

void save_engine(const EngineFile& file, const std::string& path) {
  const std::vector<uint8_t> bytes = write_engine(file);
  const std::string temporary = path + ".tmp" + std::to_string(getpid());
  auto fail = [&](const char* what) {
    const std::string reason = std::strerror(errno);
    std::remove(temporary.c_str());
    throw Error(Code::DISK_FULL, std::string("cannot ") + what + " \"" + path + "\": " + reason);
  };
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) fail("create");
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = write(fd, bytes.data() + done, bytes.size() - done);
    if (n < 0) {
      close(fd);
      fail("write");
    }
    done += static_cast<size_t>(n);
  }
  if (fsync(fd) != 0 || close(fd) != 0) fail("write");
  if (std::rename(temporary.c_str(), path.c_str()) != 0) fail("rename to");
}

}  // namespace deepjit
