// Records that processes share: whole or missing, whatever happens to their writers. The same check is run on a writer
// that writes in place, to show that it would be caught.
#include "base/record_store.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <thread>

#include "base/sha256.h"

namespace deepjit {
namespace {

namespace fs = std::filesystem;

class RecordStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("deepjit_records_" + std::to_string(getpid()));
    fs::remove_all(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  RecordStore store() const { return RecordStore(folder_.string()); }
  size_t quarantined() const {
    const fs::path q = folder_ / "quarantine";
    return fs::exists(q) ? static_cast<size_t>(std::distance(fs::directory_iterator(q), fs::directory_iterator())) : 0;
  }

  fs::path folder_;
};

const std::string kKey(64, 'a');

// What writer number n stores: large enough that writing takes a while, the same letter throughout.
std::string content_of(int n) { return std::string(400'000, static_cast<char>('a' + n % 26)); }

bool is_whole(const std::string& content) {
  return content.size() == 400'000 && content.find_first_not_of(content[0]) == std::string::npos;
}

using Writer = std::function<void(const RecordStore&, int)>;

void by_rename(const RecordStore& store, int n) { store.store(kKey, "test", content_of(n)); }

void in_place(const RecordStore& store, int n) {
  const std::string path = store.path_of(kKey, "test");
  fs::create_directories(fs::path(path).parent_path());
  const std::string content = content_of(n);
  std::ofstream(path, std::ios::binary) << sha256_hex(kKey + content) << "\n" << content;
}

// A process that stores records until it is killed.
pid_t start(const RecordStore& store, const Writer& writer, int first) {
  const pid_t child = fork();
  if (child == 0) {
    for (int n = first;; ++n) writer(store, n);
  }
  return child;
}

void end(pid_t child) {
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST_F(RecordStoreTest, FindsWhatWasStoredAndNothingElse) {
  const RecordStore records = store();
  EXPECT_FALSE(records.find(kKey, "test"));
  records.store(kKey, "test", "one\ntwo");
  EXPECT_EQ(records.find(kKey, "test"), "one\ntwo");
  EXPECT_FALSE(records.find(kKey, "other"));
  EXPECT_FALSE(records.find(std::string(64, 'b'), "test"));
  records.store(kKey, "test", "");
  EXPECT_EQ(records.find(kKey, "test"), "");
  EXPECT_EQ(quarantined(), 0u);
}

TEST_F(RecordStoreTest, WithoutAFolderThereAreNoRecords) {
  const RecordStore none("");
  none.store(kKey, "test", "x");
  EXPECT_FALSE(none.find(kKey, "test"));
  EXPECT_FALSE(none.enabled());
}

TEST_F(RecordStoreTest, AFolderThatCannotBeWrittenIsNoError) {
  const RecordStore none("/proc/no such place");
  none.store(kKey, "test", "x");
  EXPECT_FALSE(none.find(kKey, "test"));
}

TEST_F(RecordStoreTest, AnyChangedByteIsAMissAndKept) {
  const RecordStore records = store();
  for (const char* kind : {"first", "middle", "end", "short"}) {
    records.store(kKey, kind, "some content");
    const std::string path = records.path_of(kKey, kind);
    const auto size = static_cast<int64_t>(fs::file_size(path));
    if (std::string(kind) == "short") {
      fs::resize_file(path, static_cast<uintmax_t>(size - 1));
    } else {
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(kind[0] == 'f' ? 0 : kind[0] == 'm' ? 66 : size - 1);
      file.put('!');
    }
    EXPECT_FALSE(records.find(kKey, kind)) << kind;
    EXPECT_FALSE(fs::exists(path)) << kind;
  }
  EXPECT_EQ(quarantined(), 4u);
}

TEST_F(RecordStoreTest, ARecordUnderAnotherKeyIsAMiss) {
  const RecordStore records = store();
  records.store(kKey, "test", "content");
  const std::string other(64, 'c');
  fs::create_directories(fs::path(records.path_of(other, "test")).parent_path());
  fs::copy_file(records.path_of(kKey, "test"), records.path_of(other, "test"));
  EXPECT_FALSE(records.find(other, "test"));
}

// Kills a writer at random moments; returns how many torn records a reader would have been given.
size_t torn_by_kills(const RecordStore& records, const Writer& writer, int rounds, size_t enough) {
  std::mt19937 random(7);
  size_t torn = 0;
  for (int round = 0; round < rounds && torn < enough; ++round) {
    const pid_t child = start(records, writer, round);
    std::this_thread::sleep_for(std::chrono::microseconds(500 + random() % 6000));
    end(child);
    if (!fs::exists(records.path_of(kKey, "test"))) continue;
    const auto content = records.find(kKey, "test");
    torn += content && is_whole(*content) ? 0 : 1;
  }
  return torn;
}

TEST_F(RecordStoreTest, AKillAtAnyPointLeavesAWholeRecordOrNone) {
  EXPECT_EQ(torn_by_kills(store(), by_rename, 60, 1), 0u);
  EXPECT_EQ(quarantined(), 0u);
}

TEST_F(RecordStoreTest, TheKillsWouldCatchAWriteInPlace) { EXPECT_GE(torn_by_kills(store(), in_place, 2000, 1), 1u); }

// Reads while two processes write the same record.
size_t torn_by_two_writers(const RecordStore& records, const Writer& writer, int reads, size_t enough) {
  const pid_t one = start(records, writer, 0);
  const pid_t two = start(records, writer, 13);
  size_t torn = 0;
  for (int i = 0; i < reads && torn < enough; ++i) {
    if (!fs::exists(records.path_of(kKey, "test"))) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      continue;
    }
    const auto content = records.find(kKey, "test");
    torn += content && is_whole(*content) ? 0 : 1;
  }
  end(one);
  end(two);
  return torn;
}

TEST_F(RecordStoreTest, TwoWritersAtOnceLeaveWholeRecords) {
  EXPECT_EQ(torn_by_two_writers(store(), by_rename, 400, 1), 0u);
  EXPECT_EQ(quarantined(), 0u);
}

TEST_F(RecordStoreTest, TwoWritersInPlaceWouldBeCaught) {
  EXPECT_GE(torn_by_two_writers(store(), in_place, 5000, 1), 1u);
}

}  // namespace
}  // namespace deepjit
