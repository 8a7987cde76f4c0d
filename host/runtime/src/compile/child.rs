//! The compiler's child process, from the side of the gateway.
//!
//! The child runs our own program on a module that may be hostile. It gets the module and nothing else: no
//! environment, and so no master key, and no open file except its pipes. Its output is trusted like that of our
//! own compiler, because it is the same code. The MAC for the cache is made here, with a key that the child never
//! has.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::spare::Spare;
use crate::error::LoadError;

/// Length of the header: the kind of the payload (1 byte) and its length (8 bytes).
pub(super) const HEADER_BYTES: usize = 9;
/// The payload is machine code.
pub(super) const CODE: u8 = 1;
/// The payload is the reason why the module is not a valid component.
pub(super) const REFUSED: u8 = 2;
/// Maximum size of machine code, in bytes. A Python guest has 100 MiB.
const MAX_CODE_BYTES: u64 = 512 << 20;
/// Number of compiler threads: enough for the time limit of a swap, and the gateway keeps the remaining cores.
const THREADS: &str = "2";
/// Interval between checks whether a child has ended after its output.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Limits for compiling one module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompileLimits {
    /// CPU time of all compiler threads. The kernel counts whole seconds.
    pub cpu: Duration,
    /// Wall-clock time after which the compiler is killed.
    pub wall: Duration,
    /// Address space, in bytes.
    pub memory: u64,
}

impl CompileLimits {
    /// Limits by the size of a module in bytes. Our own guests (40-140 kB) take 0.2-0.6 s of CPU; a Python guest
    /// of 18 MB takes about 12 s and several hundred megabytes. Each gets at least three times that.
    pub const fn for_size(bytes: usize) -> Self {
        let mib = bytes.div_ceil(1 << 20) as u64;
        let cpu = 5 + 2 * mib;
        Self {
            cpu: Duration::from_secs(cpu),
            // The child has a lower priority than the gateway and may wait long on a busy machine.
            wall: Duration::from_secs(2 * cpu + 5),
            // The first part is for the program, its stacks and the reserves of the allocator.
            memory: (768 << 20) + mib * (64 << 20),
        }
    }
}

/// Settings for running the compiler as a child process.
#[derive(Clone, Debug)]
pub struct CompilerChild {
    program: PathBuf,
    arguments: Vec<OsString>,
    limits: fn(usize) -> CompileLimits,
    spare: Arc<Spare>,
}

impl CompilerChild {
    /// `program` with these arguments must call [`compile_as_child`](super::compile_as_child).
    pub fn new(
        program: impl Into<PathBuf>,
        arguments: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Self {
        Self {
            program: program.into(),
            arguments: arguments.into_iter().map(Into::into).collect(),
            limits: CompileLimits::for_size,
            spare: Arc::default(),
        }
    }

    /// Replaces the limits. The function gets the size of a module in bytes.
    #[must_use]
    pub fn limited(mut self, limits: fn(usize) -> CompileLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Keeps a child ready from now on.
    pub(super) fn warm_up(&self) {
        self.spare.keep_ready(self.command());
    }

    /// Compiles a module in its own child process. Blocks until the child ends, at most for its wall-clock limit.
    pub(super) fn compile(&self, bytes: &[u8]) -> Result<Vec<u8>, LoadError> {
        let limits = (self.limits)(bytes.len());
        let none = |error: io::Error| LoadError::NoCompiler(error.kind());
        let mut child = match self.spare.take() {
            Some(ready) => ready,
            None => self.command()().map_err(none)?,
        };
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(LoadError::NoCompiler(io::ErrorKind::BrokenPipe));
        };
        let head = format!("{} {}\n", limits.cpu.as_secs(), limits.memory);
        let (reply, ended) = run_child(
            &mut child,
            stdin,
            stdout,
            [head.as_bytes(), bytes],
            limits.wall,
        );
        match reply {
            Ok(ChildReply::Code(code)) => Ok(code),
            Ok(ChildReply::Refused(why)) => Err(LoadError::invalid(&why)),
            Ok(ChildReply::Broken) => Err(exit_error(ended, limits)),
            Err(TimedOut) => Err(LoadError::CompileTime(limits.wall)),
        }
    }

    /// Returns a function that starts a child.
    fn command(&self) -> impl Fn() -> io::Result<Child> + Send + 'static {
        let (program, arguments) = (self.program.clone(), self.arguments.clone());
        move || {
            Command::new(&program)
                .args(&arguments)
                .env_clear()
                .env("RAYON_NUM_THREADS", THREADS)
                // Each arena of the allocator reserves address space. The first arena of mimalloc would exceed the
                // limit.
                .env("MALLOC_ARENA_MAX", THREADS)
                .env("MIMALLOC_ARENA_RESERVE", "0")
                .current_dir("/")
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
        }
    }
}

enum ChildReply {
    Code(Vec<u8>),
    Refused(String),
    /// The reply is missing or incomplete.
    Broken,
}

struct TimedOut;

/// Sends the module to a child, reads the reply and waits for the child to end. Kills it if it takes too long,
/// which closes the pipes and ends the threads.
fn run_child(
    child: &mut Child,
    mut stdin: ChildStdin,
    stdout: ChildStdout,
    input: [&[u8]; 2],
    timeout: Duration,
) -> (Result<ChildReply, TimedOut>, Option<ExitStatus>) {
    let until = Instant::now() + timeout;
    thread::scope(|scope| {
        // If the child dies early, the pipe is closed and the reply is incomplete.
        scope.spawn(move || {
            let _ = input.iter().try_for_each(|part| stdin.write_all(part));
        });
        let (tell, told) = channel();
        scope.spawn(move || {
            let mut reply = Vec::new();
            let read = stdout
                .take(MAX_CODE_BYTES + HEADER_BYTES as u64)
                .read_to_end(&mut reply);
            let _ = tell.send(read.map(|_| reply));
        });
        let reply = match told.recv_timeout(timeout) {
            Ok(read) => Ok(read.map_or(ChildReply::Broken, ChildReply::parse)),
            Err(RecvTimeoutError::Timeout) => Err(TimedOut),
            Err(RecvTimeoutError::Disconnected) => Ok(ChildReply::Broken),
        };
        // The exit status only matters if the reply is incomplete.
        let grace = matches!(reply, Ok(ChildReply::Broken)).then_some(until);
        (reply, reap(child, grace))
    })
}

/// Waits until this time for the child to end, or not at all for `None`, then kills it.
fn reap(child: &mut Child, until: Option<Instant>) -> Option<ExitStatus> {
    while until.is_some_and(|until| Instant::now() < until) {
        match child.try_wait() {
            Ok(None) => thread::sleep(POLL_INTERVAL),
            Ok(status) => return status,
            Err(_) => break,
        }
    }
    let _ = child.kill();
    child.wait().ok()
}

impl ChildReply {
    fn parse(mut reply: Vec<u8>) -> Self {
        let Some((&kind, rest)) = reply.split_first() else {
            return Self::Broken;
        };
        let Some((length, payload)) = rest.split_first_chunk() else {
            return Self::Broken;
        };
        if u64::from_le_bytes(*length) != payload.len() as u64 {
            return Self::Broken;
        }
        reply.drain(..HEADER_BYTES);
        match kind {
            CODE => Self::Code(reply),
            REFUSED => Self::Refused(String::from_utf8_lossy(&reply).into_owned()),
            _ => Self::Broken,
        }
    }
}

/// The error for a child without a complete reply, by its exit status.
fn exit_error(status: Option<ExitStatus>, limits: CompileLimits) -> LoadError {
    let signal = status.and_then(|status| status.signal());
    let is = |wanted: Signal| signal == Some(wanted.as_raw());
    if is(Signal::XCPU) || is(Signal::KILL) {
        LoadError::CompileTime(limits.cpu)
    } else if is(Signal::ABORT) {
        // The allocator aborts when it reaches the limit.
        LoadError::CompileMemory(limits.memory)
    } else {
        LoadError::CompilerFailed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A child that is a shell script. The limits are in `$cpu` and `$memory`.
    fn script(text: &str) -> CompilerChild {
        let text = format!("read cpu memory; {text}");
        CompilerChild::new("/bin/sh", ["-c", text.as_str()]).limited(|_| CompileLimits {
            cpu: Duration::from_secs(7),
            wall: Duration::from_millis(300),
            memory: 1 << 30,
        })
    }

    fn compile(text: &str) -> Result<Vec<u8>, LoadError> {
        script(text).compile(b"module")
    }

    #[test]
    fn an_answer_is_taken_whole() {
        let code = compile(r"cat >/dev/null; printf '\001\004\0\0\0\0\0\0\0code'");
        assert_eq!(code.unwrap(), b"code");
        let refused = compile(r"cat >/dev/null; printf '\002\003\0\0\0\0\0\0\0why'");
        assert_eq!(refused, Err(LoadError::Invalid("why".into())));
    }

    #[test]
    fn the_child_gets_the_module_its_limits_and_no_environment() {
        let told = compile(
            r#"m=$(cat); t="$m $cpu $memory $HOME$KASSETTE_MASTER_KEY"; printf '\001\024\0\0\0\0\0\0\0%s' "$t""#,
        );
        assert_eq!(told.unwrap(), b"module 7 1073741824 ");
    }

    #[test]
    fn an_answer_that_breaks_off_is_none() {
        for said in [
            "true",
            r"printf '\001'",
            r"printf '\001\005\0\0\0\0\0\0\0code'",
            r"printf '\003\0\0\0\0\0\0\0\0'",
        ] {
            assert_eq!(compile(said), Err(LoadError::CompilerFailed), "{said}");
        }
        let more = r"printf '\001\001\0\0\0\0\0\0\0code'";
        assert_eq!(compile(more), Err(LoadError::CompilerFailed));
    }

    #[test]
    fn how_a_child_died_tells_what_it_lacked() {
        let cpu = Err(LoadError::CompileTime(Duration::from_secs(7)));
        assert_eq!(compile("kill -XCPU $$"), cpu);
        assert_eq!(compile("kill -KILL $$"), cpu);
        assert_eq!(
            compile("kill -ABRT $$"),
            Err(LoadError::CompileMemory(1 << 30))
        );
        assert_eq!(compile("kill -SEGV $$"), Err(LoadError::CompilerFailed));
    }

    #[test]
    fn a_child_that_does_not_end_is_killed_on_time() {
        for endless in ["exec sleep 60", "exec sleep 60 >/dev/null"] {
            let began = Instant::now();
            let refused = script(endless).compile(&vec![0; 1 << 20]);
            assert!(
                matches!(refused, Err(LoadError::CompileTime(_))),
                "{endless}"
            );
            assert!(began.elapsed() < Duration::from_secs(20), "{endless}");
        }
    }

    #[test]
    fn a_child_that_waited_compiles_and_one_that_died_waiting_is_replaced() {
        let code = r"cat >/dev/null; printf '\001\004\0\0\0\0\0\0\0code'";
        let waiting = script(code);
        waiting.warm_up();
        for _ in 0..3 {
            assert_eq!(waiting.compile(b"module").unwrap(), b"code");
        }
        let mut first = waiting.spare.take().unwrap();
        let died = first.kill().and_then(|()| first.wait());
        assert!(died.is_ok());
        // A child that always ends before it gets a module.
        let hasty = CompilerChild::new("/bin/sh", ["-c", "exit 0"]);
        hasty.warm_up();
        assert_eq!(hasty.compile(b"module"), Err(LoadError::CompilerFailed));
    }

    #[test]
    fn a_program_that_is_not_there_compiles_nothing() {
        let none = CompilerChild::new("/nowhere/kassette", ["x"]).compile(b"module");
        assert_eq!(none, Err(LoadError::NoCompiler(io::ErrorKind::NotFound)));
    }
}
