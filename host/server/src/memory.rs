//! The allocator, and how soon it gives memory back.

use std::env;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Requests allocate in one thread and are freed in another, in small pieces: this allocator answers
/// a fifth more of them than the C library's, for a few megabytes (`cargo bench`). It is built without
/// huge pages: what is alive lies scattered, and each piece would keep two megabytes resident.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How long the allocator keeps unused memory before it goes back to the system, milliseconds; its
/// own name for that (mimalloc's documentation, "Environment Options").
const KEPT: (&str, &str) = ("MIMALLOC_PURGE_DELAY", "100");

/// Has the allocator keep unused memory for [`KEPT`], not for a second, in which the store
/// alone lets go of some 20 MB at full load.
///
/// It reads its settings from the environment before `main`, and nothing but that reaches them without
/// unsafe code. So the process starts its own program in place of itself, once, with its number, files
/// and arguments: call it before any thread is started. Where an operator has set the delay, and where
/// the program cannot be started, everything stays as it is.
///
/// Decided 2026-11-23 and 24. Measured with a million payments: 144 to 150 MB resident in place of 175 to 184,
/// for at most a few percent of the creates. mimalloc's second version needs no such start, but had 131, 98
/// and 150 MB with 200,000 payments (once made, after a start, used further) where this one has 105, 79 and
/// 110, and 333 MB beside the attacks of `cargo bench` where this one has 296. jemalloc takes 10 to 15 MB less,
/// 5 to 10 % more processor time a read, and `make`, which a machine with a Rust toolchain alone may lack.
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
    // It comes back only with an error, and then memory goes back later.
    let _ = again.args(arguments).env(name, kept).exec();
}
