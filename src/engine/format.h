// The engine file: header, section table, sections.
//
//   offset 0   magic "DEEPJIT\0"
//          8   u32 format version        12  u32 number of sections
//         16   u64 file size             24  u64 reserved, zero
//         32   section table, 64 bytes each:
//                u32 kind, u32 reserved, u64 offset, u64 size, 8 bytes reserved, 32 bytes hash of the section
//          .   32 bytes SHA-256 of everything before
//          .   sections, each at a multiple of 4096; the bytes between are zero
//
// The hash of a section is sha256_of_chunks. All integers are little endian. A reader checks the header's hash, the
// table's ranges, that gaps are zero and each section's hash, in this order, before it parses anything. What it parsed
// must then pass check_programs. PROGRAM holds the program and one for each further shape range. Constants live in
// WEIGHTS, page aligned, each once, and are used where the file is mapped; everything else is copied. What is hashed is
// read, not mapped, so a file that is cut meanwhile is an error.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "program/program.h"

namespace deepjit {

constexpr char kEngineMagic[8] = {'D', 'E', 'E', 'P', 'J', 'I', 'T', '\0'};
constexpr uint32_t kEngineVersion = 6;
constexpr size_t kSectionAlign = 4096;
constexpr size_t kHeaderBytes = 32;
constexpr size_t kTableEntryBytes = 64;
constexpr size_t kHashBytes = 32;

enum class Section : uint32_t { PROGRAM = 1, WEIGHTS = 2, GRAPH = 3, LOCK = 4, EDGES = 5 };

struct EngineFile {
  Program program;
  std::string graph_text;  // the graph before and after the passes, for inspect
  std::string lock_text;   // step fingerprint -> tactic, see tune/
  // The ledger as lowering noted it, of which tuning makes the program's: for tuning it anew (compiler/retune.h).
  std::vector<LedgerEntry> edges = {};
};

struct LoadedFile {
  EngineFile file;
  Backing backing;  // the file's bytes, which constants refer into
};

// Writes to memory. The same EngineFile gives the same bytes.
std::vector<uint8_t> write_engine(const EngineFile& file);
// Writes by temporary file, fsync and rename: the path holds the old file or the whole new one.
void save_engine(const EngineFile& file, const std::string& path);

// The container alone: sections with their hashes around, and back. open_sections throws a 4xx error.
std::vector<uint8_t> seal_sections(const std::vector<std::pair<Section, std::vector<uint8_t>>>& sections);
std::map<Section, std::span<const uint8_t>> open_sections(std::span<const uint8_t> bytes);

// Any damage throws a 4xx error. `owner` owns `bytes`.
LoadedFile read_engine(std::span<const uint8_t> bytes, std::shared_ptr<const void> owner);
// Maps the file: processes that load one engine share its weights. Replace an engine file by rename (as save_engine
// does); one that is written over in place is refused at the next run.
LoadedFile load_engine(const std::string& path);

}  // namespace deepjit
