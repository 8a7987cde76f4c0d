//! The environment of a command, which is empty.

use wasmtime::bail;
use wasmtime::component::{LinkerInstance, Resource, ResourceType};

use super::io::{InputStream, OutputStream, STDERR, STDOUT};
use crate::guest::method::MethodState;

type To<'a, 'b> = &'a mut LinkerInstance<'b, MethodState>;

/// Never created, because no terminal exists.
struct TerminalInput;
/// Never created, because no terminal exists.
struct TerminalOutput;

pub(super) fn environment(to: To<'_, '_>) -> wasmtime::Result<()> {
    to.func_wrap("get-environment", |_, ()| {
        Ok((Vec::<(String, String)>::new(),))
    })?;
    to.func_wrap("get-arguments", |_, ()| Ok((Vec::<String>::new(),)))?;
    to.func_wrap("initial-cwd", |_, ()| Ok((None::<String>,)))
}

/// Ends the call without an answer, for any status.
pub(super) fn exit(to: To<'_, '_>) -> wasmtime::Result<()> {
    to.func_wrap(
        "exit",
        |_, (_status,): (Result<(), ()>,)| -> wasmtime::Result<()> {
            bail!("the module ended itself")
        },
    )?;
    to.func_wrap(
        "exit-with-code",
        |_, (_status,): (u8,)| -> wasmtime::Result<()> { bail!("the module ended itself") },
    )
}

pub(super) fn stdin(to: To<'_, '_>) -> wasmtime::Result<()> {
    to.func_wrap("get-stdin", |_, ()| {
        Ok((Resource::<InputStream>::new_own(0),))
    })
}

pub(super) fn stdout(to: To<'_, '_>) -> wasmtime::Result<()> {
    to.func_wrap("get-stdout", |_, ()| {
        Ok((Resource::<OutputStream>::new_own(STDOUT),))
    })
}

pub(super) fn stderr(to: To<'_, '_>) -> wasmtime::Result<()> {
    to.func_wrap("get-stderr", |_, ()| {
        Ok((Resource::<OutputStream>::new_own(STDERR),))
    })
}

pub(super) fn terminal_input(to: To<'_, '_>) -> wasmtime::Result<()> {
    let terminal = ResourceType::host::<TerminalInput>();
    to.resource("terminal-input", terminal, |_, _| Ok(()))
}

pub(super) fn terminal_output(to: To<'_, '_>) -> wasmtime::Result<()> {
    let terminal = ResourceType::host::<TerminalOutput>();
    to.resource("terminal-output", terminal, |_, _| Ok(()))
}

pub(super) fn terminal_stdin(to: To<'_, '_>) -> wasmtime::Result<()> {
    to.func_wrap("get-terminal-stdin", |_, ()| {
        Ok((None::<Resource<TerminalInput>>,))
    })
}

pub(super) fn terminal_of_output(to: To<'_, '_>, function: &str) -> wasmtime::Result<()> {
    to.func_wrap(function, |_, ()| Ok((None::<Resource<TerminalOutput>>,)))
}
