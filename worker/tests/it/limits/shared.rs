//! Memory that belongs to no process, or to several.

use serde_json::{Value, json};

use super::{MIB, each_way};

fn limits() -> Value {
    json!({"memory_bytes": 64 * MIB, "file_size_bytes": 512 * MIB, "open_files": 64})
}

fn oom(code: &str) {
    each_way(|world| {
        world.ends_as(&json!("oom"), code, &limits());
    });
}

#[test]
fn files_in_shared_memory_count() {
    oom("
for number in range(12):
    file = os.open(f'/dev/shm/{number}', os.O_WRONLY | os.O_CREAT)
    fill(file, 8)
    os.close(file)
");
}

#[test]
fn deleted_files_in_shared_memory_count() {
    oom("
for number in range(12):
    file = os.open('/dev/shm/x', os.O_WRONLY | os.O_CREAT)
    os.unlink('/dev/shm/x')
    fill(file, 8)
");
}

#[test]
fn files_without_a_name_that_nobody_mapped_count() {
    oom("for _ in range(12): fill(os.memfd_create('x'), 8)");
}

#[test]
fn files_without_a_name_count_in_a_process_that_cannot_be_looked_into() {
    oom("libc.prctl(4, 0, 0, 0, 0)\nfor _ in range(12): fill(os.memfd_create('x'), 8)");
}

#[test]
fn files_without_a_name_count_in_a_thread_with_descriptors_of_its_own() {
    oom("
def hog():
    assert libc.unshare(0x400) == 0
    for _ in range(12): fill(os.memfd_create('x'), 8)
    time.sleep(600)
threading.Thread(target=hog).start()
");
}

#[test]
fn files_without_a_name_count_in_a_process_whose_first_thread_is_gone() {
    oom("
def hog():
    for _ in range(12): fill(os.memfd_create('x'), 8)
    time.sleep(600)
threading.Thread(target=hog).start()
libc.syscall(60, 0)
");
}

#[test]
fn shared_memory_of_system_v_counts_though_nobody_holds_it() {
    oom("
libc.shmat.restype = ctypes.c_void_p
libc.shmdt.argtypes = [ctypes.c_void_p]
for _ in range(12):
    id = libc.shmget(0, 8 * MIB, 0o1600)
    assert id >= 0, ctypes.get_errno()
    at = libc.shmat(id, None, 0)
    ctypes.memset(at, 1, 8 * MIB)
    assert libc.shmdt(at) == 0
");
}

#[test]
fn a_shared_mapping_without_a_file_counts() {
    oom("
for _ in range(12):
    view = mmap.mmap(-1, 8 * MIB)
    kept.append(view)
    for at in range(0, len(view), 4096): view[at] = 1
");
}

#[test]
fn what_several_processes_share_counts_once() {
    let code = "
file = os.open('/dev/shm/x', os.O_RDWR | os.O_CREAT)
fill(file, 26)
memory = os.memfd_create('x')
fill(memory, 26)
views = [mmap.mmap(file, 26 * MIB), mmap.mmap(memory, 26 * MIB)]
children = [os.fork() for _ in range(2)]
for view in views:
    for at in range(0, len(view), 4096): view[at] = 2
time.sleep(0.5)
if 0 in children: os._exit(0)
";
    each_way(|world| {
        world.passes(code, &json!({"memory_bytes": 96 * MIB}));
    });
}

#[test]
fn what_the_kernel_keeps_to_find_pages_counts() {
    if !std::fs::read_to_string("/proc/self/status").unwrap().contains("VmPTE:") {
        return assert!(!std::path::Path::new("/proc/self/setgroups").exists(), "only gVisor does not tell it");
    }
    // One byte is read in each 2 MiB: its page is the one of zeroes, which belongs to nobody.
    oom("
import ctypes
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
base = libc.mmap(None, 1 << 38, 1, 0x4022, -1, 0)
libc.madvise(base, 1 << 38, 15)
for place in range(base, base + (1 << 38), 2 << 20): ctypes.c_char.from_address(place).value
");
}
