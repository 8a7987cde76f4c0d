//! `kassette backup`.

use std::io::{self, Read};
use std::path::PathBuf;

use bytes::Bytes;
use clap::Args;
use http::Method;
use http_body_util::BodyExt as _;
use kassette_gateway::clock::{Clock as _, SystemClock};
use kassette_store::sled::maintenance::{self, BackedUp};
use tokio::sync::mpsc;

use super::target::Target;
use super::{blocking, mib, tell};
use crate::cli::progress::ProgressOutput;
use crate::cli::remote::{Connection, Incoming, stream};
use crate::cli::stopped_store::StoppedStore;

/// Maximum number of pieces that wait to be written.
const WAITING: usize = 16;
/// Data that a backup does not contain.
const WITHOUT: &str =
    "The master key is not in it, nor are configuration and modules: keep them elsewhere.";

/// The options of `kassette backup`.
#[derive(Args)]
pub(in crate::cli) struct BackupArgs {
    /// The file to write, or - for standard output.
    file: PathBuf,
    /// Replace an existing file.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    store: StoppedStore,
    #[command(flatten)]
    connection: Connection,
}

/// Backs up a running server if there is an operator token and no store is named. Otherwise backs up a stopped
/// server's store.
pub(in crate::cli) async fn backup(args: BackupArgs) -> Result<(), String> {
    let token = args.connection.token()?;
    let mut target = Target::open(&args.file, args.force)?;
    let to_output = target.is_output();
    let offline = args.store.is_named() || token.is_none();
    let (done, target) = if offline {
        let options = args.store.options()?;
        blocking(move || {
            let shown = ProgressOutput::new(None);
            let now = SystemClock.now();
            let done = maintenance::backup(&options, &mut target, now, &shown)
                .map_err(|error| hint(error.to_string()))?;
            Ok((done, target))
        })
        .await?
    } else {
        let incoming = stream(&args.connection, Method::POST, &["backup"]).await?;
        let pieces = arriving(incoming);
        blocking(move || {
            let shown = ProgressOutput::new(None);
            let done = maintenance::receive(pieces, &mut target, &shown)
                .map_err(|error| error.to_string())?;
            Ok((done, target))
        })
        .await?
    };
    blocking(move || target.keep()).await?;
    if to_output {
        eprintln!("{}", sentence(&done, "standard output"));
        return Ok(());
    }
    let file = args.file.display().to_string();
    tell(&done, args.connection.json, &sentence(&done, &file))
}

fn sentence(done: &BackedUp, file: &str) -> String {
    let rows: u64 = done.rows.values().sum();
    format!(
        "{file}: {} payments, {rows} rows, {} groups of changes made meanwhile, {}.\n{WITHOUT}",
        done.payments,
        done.groups,
        mib(done.bytes)
    )
}

/// Adds advice for the most frequent mistake: the server is running.
fn hint(error: String) -> String {
    match error.contains("in use by another process") {
        true => format!(
            "{error}\nA running server is backed up with an operator token of the role admin in \
             KASSETTE_OPERATOR_TOKEN, without --config and --data-dir"
        ),
        false => error,
    }
}

/// Makes the body of a response readable from another thread.
fn arriving(mut body: Incoming) -> Arriving {
    let (sender, pieces) = mpsc::channel(WAITING);
    tokio::spawn(async move {
        loop {
            let piece = match body.frame().await {
                None => return,
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => Ok(data),
                    Err(_) => continue,
                },
                Some(Err(error)) => Err(io::Error::other(error)),
            };
            let broken = piece.is_err();
            if sender.send(piece).await.is_err() || broken {
                return;
            }
        }
    });
    Arriving {
        pieces,
        rest: Bytes::new(),
    }
}

/// The received part of a response's body.
struct Arriving {
    pieces: mpsc::Receiver<io::Result<Bytes>>,
    rest: Bytes,
}

impl Read for Arriving {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() {
            match self.pieces.blocking_recv() {
                None => return Ok(0),
                Some(piece) => self.rest = piece?,
            }
        }
        let length = buffer.len().min(self.rest.len());
        let taken = self.rest.split_to(length);
        for (at, byte) in buffer.iter_mut().zip(taken) {
            *at = byte;
        }
        Ok(length)
    }
}
