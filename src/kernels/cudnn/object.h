// A descriptor of cuDNN's backend, owned; its attributes with their types. All functions throw what check() does.
#pragma once

#include <memory>
#include <vector>

#include "kernels/cudnn/library.h"

namespace deepjit::cudnn {

class BackendObject {
 public:
  BackendObject() : object_(nullptr, nullptr) {}
  explicit BackendObject(int type);

  Object get() const { return object_.get(); }
  explicit operator bool() const { return object_ != nullptr; }

  void set(int attribute, int type, int64_t count, const void* values);
  void set_int(int attribute, int64_t value) { set(attribute, kTypeInt64, 1, &value); }
  void set_ints(int attribute, const std::vector<int64_t>& values) {
    set(attribute, kTypeInt64, static_cast<int64_t>(values.size()), values.data());
  }
  void set_float(int attribute, float value) { set(attribute, kTypeFloat, 1, &value); }
  void set_bool(int attribute, bool value) { set(attribute, kTypeBoolean, 1, &value); }
  // An enum of any of the library's types.
  void set_enum(int attribute, int type, int value) { set(attribute, type, 1, &value); }
  void set_handle(int attribute, Handle handle) { set(attribute, kTypeHandle, 1, &handle); }
  void set_object(int attribute, const BackendObject& object) {
    const Object raw = object.get();
    set(attribute, kTypeObject, 1, &raw);
  }
  void set_objects(int attribute, const std::vector<BackendObject>& objects);
  void finalize();

  int64_t get_int(int attribute) const;
  // How many elements there are; at most `most` of them are written to `values`.
  int64_t get(int attribute, int type, int64_t most, void* values) const;
  // Objects that the library makes: up to `most`, of `type`.
  std::vector<BackendObject> get_objects(int attribute, int type, int64_t most) const;

 private:
  std::unique_ptr<void, Status (*)(Object)> object_;
};

}  // namespace deepjit::cudnn
