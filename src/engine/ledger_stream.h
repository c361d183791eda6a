// Dims and ledgers in an engine's sections, written and read. A program has a ledger, and the engine the one that
// tuning starts from.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/stream.h"
#include "program/program.h"

namespace deepjit {

inline void write_dim(ByteWriter& out, const Dim& d) {
  out.number(static_cast<uint8_t>(d.is_const()));
  if (d.is_const())
    out.number(d.value());
  else
    out.text(d.to_string());
}

inline void write_ledger(ByteWriter& out, const std::vector<LedgerEntry>& ledger) {
  out.list(ledger, [&](const LedgerEntry& e) {
    out.number(e.value);
    out.number(e.producer);
    out.number(e.consumer);
    out.text(why_rule(e.rule).id);
    out.text(e.reason);
    out.text(e.fix);
    write_dim(out, e.bytes);
    out.number(e.bytes_at_opt);
    out.number(e.launches);
  });
}

// Equal texts are parsed once.
class DimReader {
 public:
  Dim read(ByteReader& in) {
    const bool constant = in.number<uint8_t>() != 0;
    if (constant) return Dim(in.number<int64_t>());
    const std::string text = in.text();
    const auto [it, fresh] = seen_.emplace(text, Dim());
    if (fresh) it->second = Dim::parse(text);
    return it->second;
  }

 private:
  std::map<std::string, Dim> seen_;
};

inline std::vector<LedgerEntry> read_ledger(ByteReader& in, DimReader& dims) {
  constexpr size_t kLeastBytes = 37;  // of an entry
  std::vector<LedgerEntry> ledger;
  for (size_t n = in.count(kLeastBytes); n > 0; --n) {
    LedgerEntry e;
    e.value = in.number<int32_t>();
    e.producer = in.number<int32_t>();
    e.consumer = in.number<int32_t>();
    const auto rule = parse_why(in.text());
    if (!rule) ByteReader::fail("a rule of the ledger is unknown");
    e.rule = *rule;
    e.reason = in.text();
    e.fix = in.text();
    e.bytes = dims.read(in);
    e.bytes_at_opt = in.number<int64_t>();
    e.launches = in.number<int32_t>();
    ledger.push_back(std::move(e));
  }
  return ledger;
}

}  // namespace deepjit
