// Where libraries of CUDA are looked for, with files of other libraries under their names.
#include "base/cuda_library.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

namespace deepjit {
namespace {

namespace fs = std::filesystem;

// A folder that DEEPJIT_CUDA_PATH names while it lives.
class CudaLibraryTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / "deepjit_cuda_library_test";
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    const char* before = std::getenv("DEEPJIT_CUDA_PATH");
    if (before != nullptr) before_ = before;
    setenv("DEEPJIT_CUDA_PATH", folder_.c_str(), 1);
    open_cuda_library({{"libm.so.6"}, {}}, [&](void*, const std::string& path) {
      real_ = path;
      return true;
    });
    ASSERT_TRUE(fs::exists(real_));
  }
  void TearDown() override {
    before_.empty() ? unsetenv("DEEPJIT_CUDA_PATH") : setenv("DEEPJIT_CUDA_PATH", before_.c_str(), 1);
    fs::remove_all(folder_);
  }

  // A library at this place in the folder.
  void put(const std::string& place) const {
    fs::create_directories((folder_ / place).parent_path());
    fs::copy_file(real_, folder_ / place);
  }
  // The file that is taken, below the folder; "" when there is none.
  std::string found(const CudaLibraryName& name, const std::string& refused = "") const {
    std::string taken;
    void* handle = open_cuda_library(name, [&](void* library, const std::string& path) {
      double (*cosine)(double) = nullptr;
      EXPECT_TRUE(find_function(library, cosine, "cos"));
      EXPECT_FALSE(find_function(library, cosine, "no_such_function"));
      const std::string below = fs::relative(path, folder_).string();
      if (below == refused) return false;
      taken = below;
      return true;
    });
    EXPECT_EQ(handle == nullptr, taken.empty());
    return taken;
  }

  fs::path folder_;
  std::string real_, before_;
};

const CudaLibraryName kName{{"libdeepjit_testblas.so.13", "libdeepjit_testblas.so.12"}, {"cu13", "testblas"}};

TEST_F(CudaLibraryTest, NoneIsNoError) { EXPECT_EQ(found(kName), ""); }

TEST_F(CudaLibraryTest, Toolkits) {
  put("lib64/libdeepjit_testblas.so.12");
  EXPECT_EQ(found(kName), "lib64/libdeepjit_testblas.so.12");
  put("lib64/libdeepjit_testblas.so.13");
  EXPECT_EQ(found(kName), "lib64/libdeepjit_testblas.so.13");
  EXPECT_EQ(found(kName, "lib64/libdeepjit_testblas.so.13"), "lib64/libdeepjit_testblas.so.12");
  put("libdeepjit_testblas.so.12");  // the folder itself comes first
  EXPECT_EQ(found(kName), "libdeepjit_testblas.so.12");
}

TEST_F(CudaLibraryTest, SeveralFolders) {
  put("b/libdeepjit_testblas.so.12");
  const std::string folders = (folder_ / "a").string() + "::" + (folder_ / "b").string();
  setenv("DEEPJIT_CUDA_PATH", folders.c_str(), 1);
  EXPECT_EQ(found(kName), "b/libdeepjit_testblas.so.12");
  put("a/lib/libdeepjit_testblas.so.12");
  EXPECT_EQ(found(kName), "a/lib/libdeepjit_testblas.so.12");
}

TEST_F(CudaLibraryTest, WheelsOfAnEnvironment) {
  put("lib/python3.11/site-packages/nvidia/testblas/lib/libdeepjit_testblas.so.12");
  EXPECT_EQ(found(kName), "lib/python3.11/site-packages/nvidia/testblas/lib/libdeepjit_testblas.so.12");
  put("lib/python3.11/site-packages/nvidia/cu13/lib/libdeepjit_testblas.so.13");
  EXPECT_EQ(found(kName), "lib/python3.11/site-packages/nvidia/cu13/lib/libdeepjit_testblas.so.13");
}

// Under a name of its own: the loader knows what it has loaded by its path.
TEST_F(CudaLibraryTest, AFileThatIsNoLibraryIsPassedOver) {
  const CudaLibraryName name{{"libdeepjit_brokenblas.so"}, {}};
  put("lib/libdeepjit_brokenblas.so");
  put("lib64/libdeepjit_brokenblas.so");
  fs::resize_file(folder_ / "lib64/libdeepjit_brokenblas.so", 100);
  EXPECT_EQ(found(name), "lib/libdeepjit_brokenblas.so");
}

}  // namespace
}  // namespace deepjit
