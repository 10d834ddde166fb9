// A driver library in C: what `docs/driver-abi.md` describes, in as few lines as it takes. The driver lists two devices and can create
// none of them; a real one would return objects with vtables of their own, `vireo_device_vtable` and so on.
//
//   cargo xtask docs                     # writes driver.h to target/reference
//   cc -shared -fPIC -Itarget/reference -o libcdriver.so examples/c-driver/driver.c
//   vireo devices --driver_plugin=./libcdriver.so

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"

// Any address of this library tells its objects from those of others.
static const char library;

// The driver is static, so its references are counted for the sake of the example only.
static atomic_int references;

static void retain(void *data) { atomic_fetch_add((atomic_int *)data, 1); }

static void release(void *data) { atomic_fetch_sub((atomic_int *)data, 1); }

// Status codes are those of all modules and kernels.
enum { NOT_FOUND = 5, RESOURCE_EXHAUSTED = 8, UNIMPLEMENTED = 12 };

static void free_status(vireo_status *status) { free(status); }

// An error whose message is static. The host frees it.
static vireo_status *failure(uint32_t code, const char *message) {
  vireo_status *status = calloc(1, sizeof(*status));
  if (!status) abort();
  status->code = code;
  status->message = (vireo_slice){message, strlen(message)};
  status->free = free_status;
  return status;
}

static void free_list(void *data, size_t length) {
  (void)length;
  free(data);
}

// A result whose text is static: there is nothing to free.
static vireo_list text(const char *text) { return (vireo_list){(void *)text, strlen(text), NULL}; }

static vireo_status *query_available_devices(void *self, vireo_list *out) {
  (void)self;
  vireo_device_info *devices = calloc(2, sizeof(*devices));
  if (!devices) return failure(RESOURCE_EXHAUSTED, "no memory for the list of devices");
  devices[0] = (vireo_device_info){.device_id = 1, .path = text("left"), .name = text("the left one")};
  devices[1] = (vireo_device_info){.device_id = 2, .path = text("right"), .name = text("the right one")};
  *out = (vireo_list){devices, 2, free_list};
  return NULL;
}

static vireo_status *dump_device_info(void *self, vireo_device_id device_id, vireo_list *out) {
  (void)self, (void)device_id;
  *out = text("a device that exists in this list only\n");
  return NULL;
}

static vireo_status *create_device_by_id(void *self, vireo_device_id device_id, vireo_slice params, vireo_object *out) {
  (void)self, (void)device_id, (void)params, (void)out;
  return failure(UNIMPLEMENTED, "this example creates no devices");
}

static vireo_status *create_device_by_path(void *self, vireo_slice driver_name, vireo_slice device_path,
                                           vireo_slice params, vireo_object *out) {
  (void)driver_name;
  int known = (device_path.length == 4 && memcmp(device_path.data, "left", 4) == 0) ||
              (device_path.length == 5 && memcmp(device_path.data, "right", 5) == 0);
  if (!known) return failure(NOT_FOUND, "the devices are left and right");
  return create_device_by_id(self, 0, params, out);
}

static const vireo_driver_vtable driver = {
    .header = {VIREO_DRIVER_ABI_VERSION, VIREO_OBJECT_DRIVER, sizeof(vireo_driver_vtable), &library, retain, release},
    .query_available_devices = query_available_devices,
    .dump_device_info = dump_device_info,
    .create_device_by_id = create_device_by_id,
    .create_device_by_path = create_device_by_path,
};

static vireo_status *create_driver(vireo_object *out) {
  retain(&references);
  *out = (vireo_object){&driver.header, &references};
  return NULL;
}

static const vireo_driver_plugin_descriptor plugin = {
    .magic = VIREO_DRIVER_PLUGIN_MAGIC,
    .abi_version = VIREO_DRIVER_ABI_VERSION,
    .size = sizeof(vireo_driver_plugin_descriptor),
    .name = {"cdriver", 7},
    .create_driver = create_driver,
};

const vireo_driver_plugin_descriptor *vireo_driver_plugin(uint32_t host_abi_version) {
  (void)host_abi_version;
  return &plugin;
}
