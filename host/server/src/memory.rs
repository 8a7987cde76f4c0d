//! The allocator, and how soon it returns memory to the system.

use std::env;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Requests allocate small pieces in one thread and free them in another. With this allocator the server handles a
/// fifth more requests than with the C library's, for a few megabytes (`cargo bench`). It is built without huge
/// pages: live allocations are scattered, and each would keep two megabytes resident.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Delay in milliseconds before the allocator returns unused memory to the system, with the name of its
/// environment variable (mimalloc's documentation, "Environment Options").
const KEPT: (&str, &str) = ("MIMALLOC_PURGE_DELAY", "100");

/// Sets the allocator's purge delay to [`KEPT`] instead of one second, in which the store frees some 20 MB at full
/// load.
///
/// The allocator reads its settings from the environment before `main`, and there is no other way to set them
/// without unsafe code. Therefore the process replaces itself once with its own program, with the same process id,
/// files and arguments. Call this before any thread starts. Nothing happens if an operator has set the delay or if
/// the program cannot be started.
///
/// Decided 2026-11-23 and 24. Measured with a million payments: 144 to 150 MB resident instead of 175 to 184, for
/// at most a few percent of the creates. mimalloc's second version needs no such restart, but used 131, 98 and 150
/// MB with 200,000 payments (created, after a start, in further use) compared to 105, 79 and 110 for this one, and
/// 333 MB during the attacks of `cargo bench` compared to 296. jemalloc uses 10 to 15 MB less, but 5 to 10 % more
/// processor time per read, and needs `make`, which a machine with only a Rust toolchain may not have.
pub(crate) fn give_back_soon() {
    let (name, kept) = KEPT;
    if env::var_os(name).is_some() {
        return;
    }
    let Ok(program) = env::current_exe() else {
        return;
    };
    let mut arguments = env::args_os();
    let mut again = Command::new(program);
    if let Some(called) = arguments.next() {
        again.arg0(called);
    }
    // Returns only on an error. In that case memory is returned later.
    let _ = again.args(arguments).env(name, kept).exec();
}
