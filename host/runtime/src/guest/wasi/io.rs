//! Streams and polling, reduced to the few states that exist.
//!
//! Resources have no state: input is at its end, output is one of two streams, and every pollable is ready. So a
//! handle is a number, and a module that never drops its handles leaks nothing.

use tracing::Level;
use wasmtime::component::{ComponentType, LinkerInstance, Lower, Resource, ResourceType};
use wasmtime::{StoreContextMut, bail};

use crate::guest::method::MethodState;

pub(super) const STDOUT: u32 = 1;
pub(super) const STDERR: u32 = 2;
/// Number of bytes that `check-write` permits. As many are kept of a line before the log cuts it.
const AT_ONCE: u64 = 4096;

/// `wasi:io/error.error`. Never created, because no operation fails.
pub(super) struct IoError;
/// `wasi:io/poll.pollable`. Always ready.
pub(super) struct Pollable;
/// `wasi:io/streams.input-stream`. Always at its end.
pub(super) struct InputStream;
/// `wasi:io/streams.output-stream`: [`STDOUT`] or [`STDERR`].
pub(super) struct OutputStream;

type To<'a, 'b> = &'a mut LinkerInstance<'b, MethodState>;
type State<'a> = StoreContextMut<'a, MethodState>;
type Input = Resource<InputStream>;
type Output = Resource<OutputStream>;

/// `wasi:io/streams.stream-error`
#[derive(ComponentType, Lower)]
#[component(variant)]
enum StreamError {
    #[component(name = "last-operation-failed")]
    #[expect(dead_code, reason = "nothing fails, but the type has it")]
    Failed(Resource<IoError>),
    #[component(name = "closed")]
    Closed,
}

/// A pollable that is ready.
pub(super) fn pollable() -> Resource<Pollable> {
    Resource::new_own(0)
}

impl MethodState {
    fn write_output(&mut self, stream: u32, bytes: &[u8]) {
        let (buffer, level) = match stream {
            STDOUT => (&mut self.wasi.out, Level::DEBUG),
            _ => (&mut self.wasi.err, Level::WARN),
        };
        let (log, identity) = (&mut self.log, &self.identity);
        buffer.write(bytes, |line| log.write(identity, level, line));
    }

    /// Logs the remaining output without a line end, after the call.
    pub(crate) fn flush_output(&mut self) {
        let (log, identity) = (&mut self.log, &self.identity);
        let wasi = &mut self.wasi;
        wasi.out.end(|line| log.write(identity, Level::DEBUG, line));
        wasi.err.end(|line| log.write(identity, Level::WARN, line));
    }
}

pub(super) fn error(to: To<'_, '_>) -> wasmtime::Result<()> {
    to.resource("error", ResourceType::host::<IoError>(), |_, _| Ok(()))?;
    to.func_wrap(
        "[method]error.to-debug-string",
        |_, (_error,): (Resource<IoError>,)| Ok((String::new(),)),
    )
}

pub(super) fn poll(to: To<'_, '_>) -> wasmtime::Result<()> {
    to.resource("pollable", ResourceType::host::<Pollable>(), |_, _| Ok(()))?;
    to.func_wrap(
        "[method]pollable.ready",
        |_, (_one,): (Resource<Pollable>,)| Ok((true,)),
    )?;
    to.func_wrap(
        "[method]pollable.block",
        |_, (_one,): (Resource<Pollable>,)| Ok(()),
    )?;
    to.func_wrap("poll", |_, (all,): (Vec<Resource<Pollable>>,)| {
        if all.is_empty() {
            bail!("a poll of nothing never ends");
        }
        Ok(((0..).take(all.len()).collect::<Vec<u32>>(),))
    })
}

pub(super) fn streams(to: To<'_, '_>) -> wasmtime::Result<()> {
    input(to)?;
    output(to)
}

fn input(to: To<'_, '_>) -> wasmtime::Result<()> {
    let stream = ResourceType::host::<InputStream>();
    to.resource("input-stream", stream, |_, _| Ok(()))?;
    for name in ["read", "blocking-read"] {
        to.func_wrap(
            &format!("[method]input-stream.{name}"),
            |_, (_stream, _most): (Input, u64)| Ok((Err::<Vec<u8>, _>(StreamError::Closed),)),
        )?;
    }
    for name in ["skip", "blocking-skip"] {
        to.func_wrap(
            &format!("[method]input-stream.{name}"),
            |_, (_stream, _most): (Input, u64)| Ok((Err::<u64, _>(StreamError::Closed),)),
        )?;
    }
    to.func_wrap(
        "[method]input-stream.subscribe",
        |_, (_stream,): (Input,)| Ok((pollable(),)),
    )
}

fn output(to: To<'_, '_>) -> wasmtime::Result<()> {
    let stream = ResourceType::host::<OutputStream>();
    to.resource("output-stream", stream, |_, _| Ok(()))?;
    to.func_wrap(
        "[method]output-stream.check-write",
        |_, (_stream,): (Output,)| Ok((Ok::<_, StreamError>(AT_ONCE),)),
    )?;
    for name in ["write", "blocking-write-and-flush"] {
        to.func_wrap(
            &format!("[method]output-stream.{name}"),
            |mut store: State<'_>, (stream, bytes): (Output, Vec<u8>)| {
                store.data_mut().write_output(stream.rep(), &bytes);
                Ok((Ok::<_, StreamError>(()),))
            },
        )?;
    }
    for name in ["flush", "blocking-flush"] {
        to.func_wrap(
            &format!("[method]output-stream.{name}"),
            |_, (_stream,): (Output,)| Ok((Ok::<_, StreamError>(()),)),
        )?;
    }
    to.func_wrap(
        "[method]output-stream.subscribe",
        |_, (_stream,): (Output,)| Ok((pollable(),)),
    )?;
    // Zero bytes are useless in a log.
    for name in ["write-zeroes", "blocking-write-zeroes-and-flush"] {
        to.func_wrap(
            &format!("[method]output-stream.{name}"),
            |_, (_stream, _count): (Output, u64)| Ok((Ok::<_, StreamError>(()),)),
        )?;
    }
    for name in ["splice", "blocking-splice"] {
        to.func_wrap(
            &format!("[method]output-stream.{name}"),
            |_, (_to, _from, _most): (Output, Input, u64)| {
                Ok((Err::<u64, _>(StreamError::Closed),))
            },
        )?;
    }
    Ok(())
}
