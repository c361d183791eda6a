// Reads tensor data that lies in files beside the model.
//
// Only plain files strictly below the model's folder are opened: no absolute path, no "..", no symbolic link on
// the way, no second hard link. Ranges are checked against the file before memory is taken.
#pragma once

#include <string>

#include "import/importer.h"

namespace onnx {
class TensorProto;
}

namespace deepjit::importer {

class ExternalData {
 public:
  explicit ExternalData(const ImportOptions& options);
  ~ExternalData();
  ExternalData(const ExternalData&) = delete;
  ExternalData& operator=(const ExternalData&) = delete;

  // Opens the file of `proto` and checks that `bytes` lie at its offset. Throws the 3xx codes.
  void locate(const onnx::TensorProto& proto, int64_t bytes);
  // Copies the bytes that the last locate() found.
  void read(void* to);

 private:
  void open(const std::string& location);

  const ImportOptions& options_;
  std::string location_;  // of the open file
  int file_ = -1;
  int64_t file_size_ = 0;
  int64_t offset_ = 0;
  int64_t bytes_ = 0;
  int64_t total_ = 0;
};

}  // namespace deepjit::importer
