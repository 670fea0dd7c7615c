//! Memory of one process, of many, and of what processes leave behind.

use serde_json::{Value, json};

use super::{MIB, World, each_way, each_way_with};
use crate::run::is_gvisor;

/// A Python that does nothing takes 10 MiB of it.
const LIMIT_MIB: u64 = 64;

fn limits() -> Value {
    json!({"memory_bytes": LIMIT_MIB * MIB, "file_size_bytes": 512 * MIB})
}

fn oom(world: &World, code: &str) {
    world.ends_as(&json!("oom"), code, &limits());
}

#[test]
fn one_process_that_takes_too_much_ends_as_oom() {
    each_way(|world| oom(world, "take(96)"));
}

#[test]
fn a_process_that_takes_far_too_much_at_once_ends_as_oom() {
    each_way(|world| oom(world, "take(1024)"));
}

#[test]
fn a_limit_that_no_program_fits_in_ends_as_oom_and_not_as_a_fault_of_the_worker() {
    each_way(|world| drop(world.ends_as(&json!("oom"), "take(32)", &json!({"memory_bytes": 1}))));
}

#[test]
fn many_processes_that_together_take_too_much_end_as_oom_at_once() {
    let code = "
for _ in range(8):
    if os.fork() == 0:
        take(12)
        time.sleep(600)
while True:
    # Whoever is killed makes room for the others: they must end all the same.
    try: os.wait()
    except ChildProcessError: break
";
    each_way(|world| oom(world, code));
}

#[test]
fn a_process_whose_first_thread_is_gone_still_counts() {
    let code = "
def hog():
    take(96)
    time.sleep(600)
threading.Thread(target=hog).start()
libc.syscall(60, 0)
";
    each_way(|world| oom(world, code));
}

#[test]
fn a_process_that_cannot_be_looked_into_still_counts() {
    each_way(|world| oom(world, "libc.prctl(4, 0, 0, 0, 0)\ntake(96)"));
}

#[test]
fn memory_just_below_the_limit_passes() {
    let one = "take(44)\ntime.sleep(0.5)";
    let many = "
children = []
for _ in range(4):
    child = os.fork()
    if child == 0:
        take(8)
        time.sleep(0.5)
        os._exit(0)
    children.append(child)
for child in children: assert os.waitpid(child, 0)[1] == 0
";
    // What the children share with their parent, all of a Python, counts for each of them inside gVisor.
    let copies_mib = if is_gvisor() { 4 * 12 } else { 0 };
    each_way(|world| {
        world.passes(one, &limits());
        world.passes(many, &json!({"memory_bytes": (LIMIT_MIB + copies_mib) * MIB}));
    });
}

#[test]
fn what_forked_processes_share_counts_once_where_the_kernel_tells_who_shares_it() {
    let code = "
take(40)
children = [os.fork() for _ in range(3)]
";
    each_way(|world| {
        // gVisor tells of each page that one process alone has it.
        if is_gvisor() {
            oom(world, code);
        } else {
            world.passes(&format!("{code}\ntime.sleep(0.4)\nif 0 in children: os._exit(0)"), &limits());
        }
    });
}

#[test]
fn starting_programs_from_a_large_process_passes() {
    // Until it is the other program, a process has all that its parent has: inside gVisor that counts for both.
    let most_mib = if is_gvisor() { 2 * LIMIT_MIB } else { LIMIT_MIB };
    let code = "take(36)\nfor _ in range(60): subprocess.run(['/bin/true'], check=True)";
    each_way(|world| {
        world.passes(code, &json!({"memory_bytes": most_mib * MIB}));
    });
}

#[test]
fn the_pages_of_files_are_no_memory() {
    let code = "
file = os.open('/tmp/large', os.O_RDWR | os.O_CREAT)
fill(file, 160)
view = mmap.mmap(file, 160 * MIB, prot=mmap.PROT_READ)
assert sum(view[at] for at in range(0, len(view), 4096)) > 0
time.sleep(0.3)
";
    each_way(|world| {
        world.passes(code, &limits());
    });
}

#[test]
fn the_limits_of_two_slots_do_not_add_up() {
    let code = "take(44)\nprint('up')\ntime.sleep(1)";
    each_way_with(&["--slots", "2"], |world| {
        let leases = [(); 2].map(|()| world.begin(code, &limits(), 20));
        for lease in &leases {
            let ended = world.end(lease);
            assert_eq!(ended.report["outcome"], json!({"exited": {"code": 0}}), "{}", ended.stderr);
        }
    });
}
