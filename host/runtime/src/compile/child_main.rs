//! The compiler's child process, seen from inside.

use std::io::{self, BufRead as _, Read as _, Write as _};

use rustix::process::{Resource, Rlimit, Signal};

use super::child::{CODE, REFUSED};
use crate::limits::MAX_MODULE_BYTES;

/// How much the compiler yields to the gateway, on the scale of nice(1).
const NICENESS: i32 = 5;
/// First choice of the kernel where memory runs out, before the gateway.
const OOM_SCORE_ADJ: &[u8] = b"1000";

/// Why a child could not do its work. Its parent sees only that it ended.
#[derive(Debug, thiserror::Error)]
pub enum ChildError {
    /// A limit cannot be set, or a pipe is closed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The engine refuses its settings.
    #[error("the engine cannot be set up: {0}")]
    Engine(String),
}

impl From<rustix::io::Errno> for ChildError {
    fn from(error: rustix::io::Errno) -> Self {
        Self::Io(error.into())
    }
}

/// A core module of one empty function. Compiling it takes the compiler's code through its first run.
const EMPTY_MODULE: &[u8] = &[
    0, b'a', b's', b'm', 1, 0, 0, 0, 1, 4, 1, 0x60, 0, 0, 3, 2, 1, 0, 10, 4, 1, 2, 0, 0x0b,
];
/// Bytes of the line of limits, at most.
const MAX_LINE: usize = 64;

/// Reads a module from standard input and writes its machine code to standard output, or why it is
/// no valid component; see [`CompilerChild`](super::CompilerChild). Before the module stands a line
/// with its limits: seconds of CPU time, bytes of address space.
///
/// First of all it takes everything from its process that a compiler does not need. Call it before
/// anything else runs there, and end the process after it.
///
/// # Errors
/// Where it cannot be limited or its parent is gone: then nothing is compiled.
pub fn compile_as_child() -> Result<(), ChildError> {
    confine()?;
    let engine =
        crate::engine::compiler().map_err(|error| ChildError::Engine(error.to_string()))?;
    // All that is the same for every module is done before one is waited for.
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

/// The line of limits. It ends early where the gateway does.
fn limits(from: &mut impl io::BufRead) -> io::Result<(u64, u64)> {
    let mut line = String::new();
    from.take(MAX_LINE as u64).read_line(&mut line)?;
    let numbers = line.trim().split_once(' ');
    numbers
        .and_then(|(cpu, memory)| Some((cpu.parse().ok()?, memory.parse().ok()?)))
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Gives up what a compiler does not need, for good.
fn confine() -> Result<(), ChildError> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // Not every container lets one change these two, and neither decides what is safe.
    let _ = std::fs::write("/proc/self/oom_score_adj", OOM_SCORE_ADJ);
    let _ = rustix::process::nice(NICENESS);
    at_most(Resource::Core, 0, 0)?;
    at_most(Resource::Fsize, 0, 0)?;
    Ok(())
}

/// What one module may cost. Nothing of it has been read yet.
fn limit(cpu_seconds: u64, memory: u64) -> Result<(), ChildError> {
    // At the soft limit it dies of a signal that says so, a second later of one that it cannot
    // ignore.
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
