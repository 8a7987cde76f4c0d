//! The compiler's child process, from the inside.

use std::io::{self, BufRead as _, Read as _, Write as _};

use rustix::process::{Resource, Rlimit, Signal};

use super::child::{CODE, REFUSED};
use crate::limits::MAX_MODULE_BYTES;

/// Priority of the compiler on the scale of nice(1), below that of the gateway.
const NICENESS: i32 = 5;
/// Makes the kernel end this process before the gateway if memory runs out.
const OOM_SCORE_ADJ: &[u8] = b"1000";

/// Reason why a child failed. The parent only sees that it ended.
#[derive(Debug, thiserror::Error)]
pub enum ChildError {
    /// A limit cannot be set, or a pipe is closed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The engine rejects its settings.
    #[error("the engine cannot be set up: {0}")]
    Engine(String),
}

impl From<rustix::io::Errno> for ChildError {
    fn from(error: rustix::io::Errno) -> Self {
        Self::Io(error.into())
    }
}

/// A core module with one empty function. Compiling it runs the compiler's code for the first time.
const EMPTY_MODULE: &[u8] = &[
    0, b'a', b's', b'm', 1, 0, 0, 0, 1, 4, 1, 0x60, 0, 0, 3, 2, 1, 0, 10, 4, 1, 2, 0, 0x0b,
];
/// Maximum length of the line with the limits, in bytes.
const MAX_LINE: usize = 64;

/// Reads a module from standard input and writes to standard output its machine code, or the reason why it is not
/// a valid component; see [`CompilerChild`](super::CompilerChild). A line before the module contains its limits:
/// seconds of CPU time and bytes of address space.
///
/// First it removes all rights of the process that a compiler does not need. Call it before anything else runs in
/// the process, and end the process afterwards.
///
/// # Errors Fails if limits cannot be set or the parent has ended.
pub fn compile_as_child() -> Result<(), ChildError> {
    confine()?;
    let engine =
        crate::engine::compiler().map_err(|error| ChildError::Engine(error.to_string()))?;
    // Do all work that does not depend on the module before waiting for one.
    let first = engine.precompile_module(EMPTY_MODULE);
    first.map_err(|error| ChildError::Engine(error.to_string()))?;
    let mut stdin = io::stdin().lock();
    let (cpu_seconds, memory) = limits(&mut stdin)?;
    limit(cpu_seconds, memory)?;
    let mut bytes = Vec::new();
    stdin
        .take(MAX_MODULE_BYTES as u64 + 1)
        .read_to_end(&mut bytes)?;
    let (kind, payload) = match engine.precompile_component(&bytes) {
        Ok(code) => (CODE, code),
        Err(error) => (REFUSED, format!("{error:#}").into_bytes()),
    };
    let mut stdout = io::stdout().lock();
    stdout.write_all(&[kind])?;
    stdout.write_all(&(payload.len() as u64).to_le_bytes())?;
    stdout.write_all(&payload)?;
    stdout.flush()?;
    Ok(())
}

/// Reads the line with the limits. It is incomplete if the gateway ends.
fn limits(from: &mut impl io::BufRead) -> io::Result<(u64, u64)> {
    let mut line = String::new();
    from.take(MAX_LINE as u64).read_line(&mut line)?;
    let numbers = line.trim().split_once(' ');
    numbers
        .and_then(|(cpu, memory)| Some((cpu.parse().ok()?, memory.parse().ok()?)))
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Permanently gives up rights that a compiler does not need.
fn confine() -> Result<(), ChildError> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // Not every container allows these two changes, and safety does not depend on them.
    let _ = std::fs::write("/proc/self/oom_score_adj", OOM_SCORE_ADJ);
    let _ = rustix::process::nice(NICENESS);
    at_most(Resource::Core, 0, 0)?;
    at_most(Resource::Fsize, 0, 0)?;
    Ok(())
}

/// Sets the limits for one module, before any of it is read.
fn limit(cpu_seconds: u64, memory: u64) -> Result<(), ChildError> {
    // At the soft limit the kernel sends SIGXCPU, which names the cause, and a second later SIGKILL.
    at_most(Resource::Cpu, cpu_seconds, cpu_seconds.saturating_add(1))?;
    at_most(Resource::As, memory, memory)?;
    Ok(())
}

fn at_most(resource: Resource, soft: u64, hard: u64) -> rustix::io::Result<()> {
    let limit = Rlimit {
        current: Some(soft),
        maximum: Some(hard),
    };
    rustix::process::setrlimit(resource, limit)
}
