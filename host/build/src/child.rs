//! Runs programs for a build: captures their output and limits their time.
use crate::BuildError;
use std::io::Read;
use std::process::{Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Maximum output that is kept for an error, in bytes. The end is kept, because cargo writes the reason there.
const KEPT_OUTPUT: usize = 64 << 10;

/// Maximum length of a document on stdout, in bytes. `cargo metadata` writes a few KiB per package.
const WHOLE_OUTPUT: usize = 16 << 20;

/// Interval between checks whether a program has ended.
const POLL: Duration = Duration::from_millis(20);

pub(crate) struct Outcome {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs a program until it ends, and kills it at the time limit. Keeps the last [`KEPT_OUTPUT`] bytes of each
/// output.
pub(crate) fn run(command: &mut Command, limit: Duration) -> Result<Outcome, BuildError> {
    run_keeping(command, limit, KEPT_OUTPUT)
}

/// Like [`run`], but keeps up to [`WHOLE_OUTPUT`] bytes of stdout, for a document.
pub(crate) fn run_whole(command: &mut Command, limit: Duration) -> Result<Outcome, BuildError> {
    run_keeping(command, limit, WHOLE_OUTPUT)
}

fn run_keeping(command: &mut Command, limit: Duration, kept: usize) -> Result<Outcome, BuildError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|source| BuildError::Spawn {
            program: program.clone(),
            source,
        })?;
    let stdout = child.stdout.take().map(|pipe| read_last(pipe, kept));
    let stderr = child.stderr.take().map(read_end);
    let started = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if started.elapsed() < limit => thread::sleep(POLL),
            Ok(None) => {
                // If the program has just ended, `kill` fails. After `wait` it has ended in either case.
                let _ = child.kill();
                let _ = child.wait();
                return Err(BuildError::TimedOut {
                    program,
                    seconds: limit.as_secs(),
                });
            }
            Err(source) => return Err(BuildError::Spawn { program, source }),
        }
    };
    Ok(Outcome {
        status,
        stdout: finish(stdout),
        stderr: finish(stderr),
    })
}

/// Reads a pipe to its end on a thread and keeps the last [`KEPT_OUTPUT`] bytes.
pub(crate) fn read_end(pipe: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    read_last(pipe, KEPT_OUTPUT)
}

fn read_last(mut pipe: impl Read + Send + 'static, most: usize) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut kept = Vec::new();
        let mut chunk = [0; 8 << 10];
        while let Ok(count @ 1..) = pipe.read(&mut chunk) {
            kept.extend_from_slice(chunk.get(..count).unwrap_or_default());
            if kept.len() > 2 * most {
                kept.drain(..kept.len() - most);
            }
        }
        kept.drain(..kept.len().saturating_sub(most));
        kept
    })
}

/// Returns the text that a reading thread has kept. Empty if there is no thread.
pub(crate) fn finish(reader: Option<JoinHandle<Vec<u8>>>) -> String {
    let bytes = reader.and_then(|reader| reader.join().ok());
    String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn both_outputs_and_the_status_are_kept() {
        let outcome = run(
            &mut shell("echo out; echo err >&2; exit 3"),
            Duration::from_secs(60),
        );
        let outcome = outcome.unwrap();
        assert_eq!(outcome.status.code(), Some(3));
        assert_eq!(
            (outcome.stdout.as_str(), outcome.stderr.as_str()),
            ("out\n", "err\n")
        );
    }

    #[test]
    fn a_program_over_its_time_is_stopped() {
        let started = Instant::now();
        let outcome = run(&mut shell("exec sleep 600"), Duration::from_millis(50));
        assert!(matches!(outcome, Err(BuildError::TimedOut { .. })));
        assert!(started.elapsed() < Duration::from_secs(300));
    }

    #[test]
    fn only_the_end_of_much_output_is_kept() {
        let outcome = run(
            &mut shell("head -c 400000 /dev/zero; echo end"),
            Duration::from_secs(60),
        );
        let outcome = outcome.unwrap();
        assert_eq!(outcome.stdout.len(), KEPT_OUTPUT);
        assert!(outcome.stdout.ends_with("end\n"));
    }

    #[test]
    fn a_missing_program_is_named() {
        let outcome = run(
            &mut Command::new("kassette-no-such-program"),
            Duration::from_secs(1),
        );
        let text = outcome
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default();
        assert!(
            text.starts_with("cannot run kassette-no-such-program"),
            "{text}"
        );
    }
}
