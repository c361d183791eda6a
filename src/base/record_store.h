// A folder of records that processes share: results that are costly to make, by the hash of all that decides them.
//
// A record is one file, named by its key and holding its own hash. It is written to a temporary file, flushed to disk
// and renamed, so two writers at once or a kill at any point leave a whole record or none. A record that does not check
// is moved to quarantine/ and counts as missing.
#pragma once

#include <optional>
#include <string>

namespace deepjit {

class RecordStore {
 public:
  // An empty folder name makes a store that holds nothing. The folder is made when something is stored.
  explicit RecordStore(std::string folder) : folder_(std::move(folder)) {}

  bool enabled() const { return !folder_.empty(); }
  // `key` is a hash in hex digits; `kind` ends the file's name ("tune").
  std::optional<std::string> find(const std::string& key, const std::string& kind) const;
  // Failing to write is no error: the store only saves time.
  void store(const std::string& key, const std::string& kind, const std::string& content) const;
  // The record stays in quarantine/: its content makes no sense to whoever asked for it.
  void reject(const std::string& key, const std::string& kind) const;
  std::string path_of(const std::string& key, const std::string& kind) const;

 private:
  std::string folder_;
};

// Writes a file by temporary file, fsync and rename; false when that failed, and then nothing has changed at `path`.
bool write_whole_file(const std::string& path, const std::string& content);

}  // namespace deepjit
