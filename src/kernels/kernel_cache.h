// Compiled kernels in a folder that processes and builds share (base/record_store.h), by the hash of all that decides
// their bytes. The source stands beside each as a file of its own, for people to read.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "base/record_store.h"

namespace deepjit {

class KernelCache {
 public:
  // Kernels are kept for this process too; with an empty folder name, only for it.
  explicit KernelCache(std::string folder) : records_(std::move(folder)) {}

  struct Request {
    std::string key;          // all that decides the bytes: the kernel, the target, the compiler and its options
    std::string source;       // what a person reads: CUDA text, or the kernel IR
    std::string source_kind;  // ends the name of the source's file: "cu", "ir"
    std::function<std::string()> compile;
  };
  // Without a cache (nullptr) it is made now.
  static std::string get_or_make(KernelCache* cache, const Request& request) {
    return cache != nullptr ? cache->get(request) : request.compile();
  }
  // The compiled bytes, of this process, of the folder, or made now. Threads may ask at once; what compile() throws, is
  // thrown: INTERNAL, which is said of the kernel itself, each time without another try. Equal requests at the same
  // time may compile twice.
  std::string get(const Request& request);

  int compiled() const { return compiled_; }  // by this cache
  int loaded() const { return loaded_; }      // from the folder
  double seconds() const;                     // spent compiling, over all threads

 private:
  std::string make(const Request& request, const std::string& key);

  RecordStore records_;
  std::mutex failed_mutex_;
  std::map<std::string, std::exception_ptr> failed_;  // by hashed key
  std::atomic<int> compiled_{0};
  std::atomic<int> loaded_{0};
  std::atomic<int64_t> nanoseconds_{0};
};

}  // namespace deepjit
