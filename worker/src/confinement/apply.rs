//! The steps that the compiler cannot check: all `unsafe` of the worker is here, each block with its reason.
#![allow(unsafe_code, reason = "the one file that may")]

use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::os::unix::net::UnixStream;

/// Standard input as the socket to the worker. It stays open when this is dropped.
pub(super) fn control_on_stdin() -> impl io::Read + io::Write {
    // SAFETY: descriptor 0 is open for the whole life of a stage, and ManuallyDrop never closes it.
    Borrowed(ManuallyDrop::new(unsafe { File::from_raw_fd(0) }))
}

struct Borrowed(ManuallyDrop<File>);

impl io::Read for Borrowed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self.0).read(buffer)
    }
}

impl io::Write for Borrowed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self.0).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Brings `lo` up in this network namespace. In gVisor it is up, and the call is not known.
pub(super) fn raise_loopback() -> io::Result<()> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
    // SAFETY: an ifreq of zeroes is a valid one: numbers, and a name that is empty.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = from.cast_signed();
    }
    let flags = libc::IFF_UP | libc::IFF_RUNNING;
    request.ifr_ifru.ifru_flags = libc::c_short::try_from(flags).map_err(io::Error::other)?;
    // SAFETY: the descriptor is a socket, and the request is the structure that this call reads.
    match unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) } {
        0 => Ok(()),
        _ => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::ENOTTY) => Ok(()),
            error => Err(error),
        },
    }
}

/// Makes this process's copy: says which one in the old process, and nothing in the new one.
pub(super) fn fork() -> io::Result<Option<nix::unistd::Pid>> {
    // SAFETY: the stage that calls this has one thread, so the new process may do what any other may.
    match unsafe { nix::unistd::fork() }? {
        nix::unistd::ForkResult::Parent { child } => Ok(Some(child)),
        nix::unistd::ForkResult::Child => Ok(None),
    }
}

/// Takes the socket from descriptor 0, which then is /dev/null: no program inherits the socket.
pub(super) fn take_control() -> io::Result<UnixStream> {
    // SAFETY: descriptor 0 is open for the whole life of a stage; the copy is made before it is replaced.
    let stdin = ManuallyDrop::new(unsafe { UnixStream::from_raw_fd(0) });
    let control = stdin.try_clone()?;
    let null = File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    Ok(control)
}

/// Lets no program that is started from here on inherit more than its three streams: who started this one may have left
/// other files open in it, and a task must not get them.
pub(crate) fn keep_descriptors() -> io::Result<()> {
    let names = std::fs::read_dir("/proc/self/fd")?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let numbers: Vec<i32> = names.filter_map(|name| name.parse().ok()).filter(|number| *number > 2).collect();
    for number in numbers {
        // SAFETY: it changes nothing but a flag; a number that is closed meanwhile is refused.
        let changed = unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
        match io::Error::last_os_error() {
            error if changed < 0 && error.raw_os_error() != Some(libc::EBADF) => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Bytes that the shared memory of System V takes in this namespace, whoever holds it.
pub(super) fn system_v_bytes() -> u64 {
    // What <sys/shm.h> calls shm_info: the third number is in pages. Not every kernel shows the same by /proc.
    const SHM_INFO: libc::c_int = 14;
    let mut info = [0_u64; 6];
    // SAFETY: shm_info is an int and five longs, so that six of these hold it, aligned; the call keeps no pointer.
    match unsafe { libc::shmctl(0, SHM_INFO, info.as_mut_ptr().cast()) } {
        -1 => 0,
        _ => info[2] * rustix::param::page_size() as u64,
    }
}

/// Makes a system call with nothing but zeroes, to see whether it is refused.
pub(super) fn try_call(number: libc::c_long) -> io::Result<()> {
    // SAFETY: every argument is zero: an empty length, a null pointer that the kernel refuses, or no flags.
    match unsafe { libc::syscall(number, 0, 0, 0, 0, 0, 0) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
