// The tuning cache: one file a record, content-addressed by the step's fingerprint.
//
// A record holds the choice, the full fingerprint text and a SHA-256 over both. It is written by temporary
// file, fsync and rename, so two processes at once or a kill at any point leave a whole record or none. A
// record that does not check is moved to quarantine/ and counts as a miss.
#pragma once

#include <optional>
#include <string>

#include "tune/tuner.h"

namespace deepjit {

class TuningCache {
 public:
  // An empty folder name makes a cache that holds nothing.
  explicit TuningCache(std::string folder) : folder_(std::move(folder)) {}

  std::optional<Choice> find(const std::string& fingerprint) const;
  // Failing to write is no error: the cache only saves time.
  void store(const Choice& choice, const std::string& fingerprint_text) const;

 private:
  std::string path_of(const std::string& fingerprint) const;
  std::string folder_;
};

}  // namespace deepjit
