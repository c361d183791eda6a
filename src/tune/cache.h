// The tuning cache: one record a choice, by the step's fingerprint, in a folder that processes share
// (base/record_store.h). A record holds the choice and the full fingerprint text.
#pragma once

#include <optional>
#include <string>

#include "base/record_store.h"
#include "tune/tuner.h"

namespace deepjit {

class TuningCache {
 public:
  // An empty folder name makes a cache that holds nothing.
  explicit TuningCache(std::string folder) : records_(std::move(folder)) {}

  std::optional<Choice> find(const std::string& fingerprint) const;
  // Failing to write is no error: the cache only saves time.
  void store(const Choice& choice, const std::string& fingerprint_text) const;

 private:
  static constexpr const char* kKind = "tune";
  RecordStore records_;
};

}  // namespace deepjit
