//! Filters on system calls. They stay until their thread, or their process, ends.

fn op(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

/// Makes system call `number` answer `errno` in this thread.
pub fn refuse(number: u32, errno: i32) {
    set(&refusal(number, errno), 0);
}

/// Makes it answer so in this thread where bit `flag` of its sixth argument is set.
pub fn refuse_flagged(number: u32, flag: u32, errno: i32) {
    // What a filter sees begins with the number of the call; this is the low half of the sixth argument, at 16 + 5 * 8.
    let flags = if cfg!(target_endian = "little") { 56 } else { 60 };
    let program = [
        op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 3, number),
        op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, flags),
        op(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, 0, 1, flag),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | errno as u32),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    set(&program, 0);
}

/// Makes it answer so in all threads of this process.
pub fn refuse_everywhere(number: u32, errno: i32) {
    set(&refusal(number, errno), libc::SECCOMP_FILTER_FLAG_TSYNC);
}

fn refusal(number: u32, errno: i32) -> [libc::sock_filter; 4] {
    [
        op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, number),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | errno as u32),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
}

/// Makes every mapping of a file the end of this process, in all its threads.
pub fn die_of_mapping_a_file() {
    // What a filter sees begins with the number of the call; the descriptor is the low half of the fifth argument, at 16 + 4 * 8.
    let descriptor = if cfg!(target_endian = "little") { 48 } else { 52 };
    let program = [
        op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 3, libc::SYS_mmap as u32),
        op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, descriptor),
        op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, 0, u32::MAX),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_KILL_PROCESS),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    set(&program, libc::SECCOMP_FILTER_FLAG_TSYNC);
}

fn set(program: &[libc::sock_filter], flags: libc::c_ulong) {
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    // SAFETY: the program lives until the calls have copied it, and neither writes to it or touches other memory of ours.
    let set = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const filter)
    };
    assert_eq!(set, 0, "the filter is set");
}

/// Maps a file for reading, and leaves it so. False when that is refused.
pub fn map(file: &std::fs::File) -> bool {
    use std::os::fd::AsRawFd;
    let (anywhere, how) = (std::ptr::null_mut(), libc::MAP_PRIVATE);
    // SAFETY: a new mapping, which nobody uses, wherever the kernel has room for it.
    let mapped = unsafe { libc::mmap(anywhere, 4096, libc::PROT_READ, how, file.as_raw_fd(), 0) };
    mapped != libc::MAP_FAILED
}
