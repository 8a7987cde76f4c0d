//! Delay until the server's allocator returns memory to the system. The server sets it in its own environment.

use std::process::Command;
use std::sync::Arc;

use crate::harness::Server;

/// mimalloc's environment variable for the delay, in milliseconds.
const DELAY: &str = "MIMALLOC_PURGE_DELAY";

/// Value of [`DELAY`] in the server's environment, when the server is started with the value `set`.
async fn delay(set: Option<&str>) -> Option<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kassette"));
    match set {
        Some(set) => command.env(DELAY, set),
        None => command.env_remove(DELAY),
    };
    let server = Server::through(command, Arc::new(tempfile::tempdir().unwrap())).await;
    // Reads the process that the test started; a child process could have another environment.
    let environment = std::fs::read(format!("/proc/{}/environ", server.pid())).unwrap();
    let environment = String::from_utf8(environment).unwrap();
    let mut entries = environment
        .split('\0')
        .filter_map(|one| one.split_once('='));
    let (_, delay) = entries.find(|(name, _)| *name == DELAY)?;
    Some(delay.to_owned())
}

#[tokio::test]
async fn memory_that_nobody_uses_goes_back_soon_and_the_server_stays_the_same_process() {
    assert_eq!(delay(None).await.as_deref(), Some("100"));
}

#[tokio::test]
async fn an_operator_says_how_soon_memory_goes_back() {
    assert_eq!(delay(Some("750")).await.as_deref(), Some("750"));
}
