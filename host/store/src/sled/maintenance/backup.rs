//! Creates a backup of a stopped store, or of a running one while it is written.
//!
//! sled offers no snapshot. Rows are therefore read in the order of their keys, each in its current state,
//! and every group that is committed in the meantime is inserted between them. `format` explains why the
//! result is the store after the last group. Before rows are read, all groups committed so far are written
//! down. Otherwise a group could follow rows that are newer than it, without the groups that changed them.

use std::io::{self, Read, Write};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kassette_domain::time::Time;
use kassette_engine::{Ended, IVec, Memtable, Reader, Span, Subscription};
use tokio::sync::{mpsc, watch};

use crate::Fault;
use crate::rows::schema::{self, Key};
use crate::rows::seal::Secrets;
use crate::sled::maintenance::format::{Decoder, Encoder, FileError, Head, Piece, Totals};
use crate::sled::maintenance::kinds::{self, KINDS};
use crate::sled::maintenance::{MaintenanceError, Progress, Stopped, Unit};
use crate::sled::memory::{Memory, Shown, View};
use crate::sled::open::{FORMAT, OpenOptions};

/// Size in bytes at which a piece ends.
const PIECE: usize = 128 << 10;
/// Number of rows fetched per read.
const AT_ONCE: usize = 8;
/// Maximum time for which a client may delay a running server's backup. Groups accumulate in the meantime.
const STALLED: Duration = Duration::from_secs(60);

/// Content of a backup.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct BackedUp {
    /// Payments in a store that is restored from it, including those created during the backup.
    pub payments: u64,
    /// Rows of each kind.
    pub rows: std::collections::BTreeMap<String, u64>,
    /// Groups that were committed during the backup. A restore replays them.
    pub groups: u64,
    /// Size of the file in bytes.
    pub bytes: u64,
}

/// The same, of a backup that came from a running server.
pub type Received = BackedUp;

/// Writes a backup of a stopped store.
///
/// # Errors
/// See [`MaintenanceError`]. Then `out` contains nothing that could be mistaken for a backup.
pub fn backup(
    options: &OpenOptions,
    out: &mut dyn Write,
    now: Time,
    progress: &dyn Progress,
) -> Result<BackedUp, MaintenanceError> {
    let stopped = Stopped::open(options)?;
    let memtable = Memtable::over(stopped.db.clone());
    let index = Shown::new(&stopped.secrets.sealer);
    let view = View::new(&memtable, &index);
    let head = head(&view, now)?;
    progress.begin("Backing up", Unit::Payments, Some(head.payments));
    let (mut encoder, first) = Encoder::begin(&head)?;
    let mut written = 0;
    let mut write = |bytes: &[u8]| -> Result<(), MaintenanceError> {
        out.write_all(bytes).map_err(FileError::Io)?;
        written += bytes.len() as u64;
        Ok(())
    };
    write(&first)?;
    let mut after: Option<Key> = None;
    loop {
        let mut next = NextRows::behind(after.as_deref());
        let rows = loop {
            if let ControlFlow::Break(rows) = next.go_on(&view)? {
                break rows;
            }
        };
        let Some((last, _)) = rows.last() else { break };
        after = Some(last.clone());
        write(&encoder.rows(&rows)?)?;
        progress.advance(payments(rows.iter().map(|(key, _)| key.as_slice())));
    }
    let (totals, end) = encoder.end(&stopped.secrets.sealer)?;
    write(&end)?;
    Ok(told(head.payments, &totals, written))
}

/// Receives a backup from a running server, checks every piece, and writes it out unchanged. Checking its
/// authentication code requires the master key, so that is not done here.
///
/// # Errors
/// See [`FileError`]. The written data is then not a backup.
pub fn receive(
    input: impl Read,
    out: &mut dyn Write,
    progress: &dyn Progress,
) -> Result<Received, FileError> {
    let (mut decoder, head) = Decoder::open(Tee { input, out }, FORMAT)?;
    progress.begin("Backing up", Unit::Payments, Some(head.payments));
    let mut made = head.payments;
    loop {
        match decoder.next()? {
            Piece::Rows(rows) => {
                progress.advance(payments(rows.iter().map(|(key, _)| key.as_slice())));
                for (key, row) in &rows {
                    made = made.max(indexed(key, row));
                }
            }
            Piece::Group(changes) => {
                for (key, row) in &changes {
                    let row = row.as_deref().map(|row| indexed(key, row));
                    made = made.max(row.unwrap_or_default());
                }
            }
            Piece::End(totals) => return Ok(told(made, &totals, decoder.read())),
        }
    }
}

/// Number of payments according to a row of the payment index. Zero for other rows, and for a damaged one,
/// which `verify` reports.
fn indexed(key: &[u8], row: &[u8]) -> u64 {
    if !key.starts_with(schema::PAYMENT_INDEX) {
        return 0;
    }
    kinds::claimed_payments_until(key, row)
}

fn told(payments: u64, totals: &Totals, bytes: u64) -> BackedUp {
    let name = |tag: u8| {
        let kind = KINDS.all().iter().find(|kind| kind.tag == tag);
        kind.map_or_else(|| tag.to_string(), |kind| kind.name.to_owned())
    };
    BackedUp {
        payments,
        rows: totals
            .rows
            .iter()
            .map(|(tag, count)| (name(*tag), *count))
            .collect(),
        groups: totals.groups,
        bytes,
    }
}

/// Copies everything that is read to `out`.
struct Tee<'a, R> {
    input: R,
    out: &'a mut dyn Write,
}

impl<R: Read> Read for Tee<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.out.write_all(buffer.get(..read).unwrap_or_default())?;
        Ok(read)
    }
}

fn head(view: &View<'_>, now: Time) -> Result<Head, Fault> {
    let canary = view
        .get(schema::CANARY)?
        .ok_or_else(|| Fault::Corrupt("the proof of the master key".into()))?;
    Ok(Head {
        release: env!("CARGO_PKG_VERSION").to_owned(),
        format: FORMAT,
        at: now,
        payments: kinds::counted_payments(view)?,
        canary: canary.to_vec(),
        kinds: KINDS
            .all()
            .iter()
            .map(|kind| (kind.tag, kind.name.to_owned()))
            .collect(),
    })
}

/// Number of payments among the rows, for the progress display.
fn payments<'a>(keys: impl Iterator<Item = &'a [u8]>) -> u64 {
    keys.filter(|key| key.starts_with(schema::PAYMENTS)).count() as u64
}

/// Reads the rows of a piece, in the order of their keys.
struct NextRows {
    rest: Span,
    rows: Vec<(Key, IVec)>,
    bytes: usize,
}

impl NextRows {
    fn behind(last: Option<&[u8]>) -> Self {
        let all = Span::prefix(&[]);
        Self {
            rest: last.map_or(all.clone(), |last| all.after(last)),
            rows: Vec::new(),
            bytes: 0,
        }
    }

    /// Reads more rows. Breaks with all rows of the piece; empty after the last row.
    fn go_on(&mut self, view: &View<'_>) -> Result<ControlFlow<Vec<(Key, IVec)>>, Fault> {
        loop {
            let found = view.scan(&self.rest, AT_ONCE)?;
            let is_last = found.len() < AT_ONCE;
            let bytes = found.iter().map(|(key, row)| key.len() + row.len());
            self.bytes += bytes.sum::<usize>();
            self.rows.extend(found);
            match self.rows.last() {
                Some((last, _)) if !is_last && self.bytes < PIECE => {
                    self.rest = self.rest.clone().after(last);
                }
                _ => return Ok(ControlFlow::Break(std::mem::take(&mut self.rows))),
            }
            if view.is_enough() {
                return Ok(ControlFlow::Continue(()));
            }
        }
    }
}

/// Sends a backup of a running store piece by piece, until its end or until the client stops reading. Records
/// the time of a complete backup.
pub(crate) async fn stream(
    reader: Reader<Memory>,
    secrets: Arc<Secrets>,
    commits: Subscription,
    (now, backed_up): (Time, Arc<AtomicU64>),
    pieces: mpsc::Sender<Vec<u8>>,
    ended: watch::Receiver<Option<Ended>>,
) {
    let mut streaming = Streaming {
        reader,
        secrets,
        commits,
        pieces,
        ended,
    };
    let began = Instant::now();
    match streaming.run(now).await {
        Ok(totals) => {
            let groups = totals.groups;
            backed_up.store(now.as_millis(), Ordering::Relaxed);
            tracing::info!(
                duration_ms = began.elapsed().as_millis() as u64,
                groups,
                "a backup was sent"
            );
        }
        Err(why) => tracing::warn!(%why, "a backup was given up"),
    }
}

struct Streaming {
    reader: Reader<Memory>,
    secrets: Arc<Secrets>,
    commits: Subscription,
    pieces: mpsc::Sender<Vec<u8>>,
    ended: watch::Receiver<Option<Ended>>,
}

/// Reason why a backup of a running store was given up.
#[derive(Debug, thiserror::Error)]
enum GivenUp {
    #[error("its client went away or took nothing for {} s", STALLED.as_secs())]
    NotTaken,
    #[error(
        "it fell too far behind what was written meanwhile, or the disk failed; try again when less is going on, or write it to a faster disk"
    )]
    TooSlow,
    #[error("the server is stopping")]
    Stopping,
    #[error(transparent)]
    Fault(#[from] Fault),
}

impl Streaming {
    async fn run(&mut self, now: Time) -> Result<Totals, GivenUp> {
        let head = self.reader.read(move |view| head(view, now)).await?;
        let (mut encoder, first) = Encoder::begin(&head)?;
        self.send(first).await?;
        match self.rows_and_groups(&mut encoder).await {
            Ok(()) => {
                let (totals, end) = encoder.end(&self.secrets.sealer)?;
                self.send(end).await?;
                self.taken().await?;
                Ok(totals)
            }
            Err(GivenUp::NotTaken) => Err(GivenUp::NotTaken),
            Err(why) => {
                let last = encoder.failed(&why.to_string())?;
                let _gone = self.pieces.try_send(last);
                Err(why)
            }
        }
    }

    async fn rows_and_groups(&mut self, encoder: &mut Encoder) -> Result<(), GivenUp> {
        let mut after: Option<Key> = None;
        loop {
            self.groups(encoder).await?;
            let began = Instant::now();
            let mut next = NextRows::behind(after.as_deref());
            let rows = self.reader.read_aside(move |view| next.go_on(view)).await?;
            let Some((last, _)) = rows.last() else { break };
            after = Some(last.clone());
            let piece = encoder.rows(&rows)?;
            self.send(piece).await?;
            // Payments take precedence: a backup uses at most half of one processor.
            tokio::time::sleep(began.elapsed()).await;
        }
        self.commits.close();
        self.groups(encoder).await
    }

    /// Sends the groups that were committed since.
    async fn groups(&mut self, encoder: &mut Encoder) -> Result<(), GivenUp> {
        while let Some(commit) = self.commits.take() {
            let piece = encoder.group(commit.number, &commit.made.written)?;
            self.send(piece).await?;
        }
        if self.commits.is_cut_off() {
            return Err(GivenUp::TooSlow);
        }
        Ok(())
    }

    /// Waits until the client has received the last piece.
    async fn taken(&self) -> Result<(), GivenUp> {
        let all = self.pieces.reserve_many(self.pieces.max_capacity());
        match tokio::time::timeout(STALLED, all).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(GivenUp::NotTaken),
        }
    }

    async fn send(&mut self, piece: Vec<u8>) -> Result<(), GivenUp> {
        tokio::select! {
            sent = self.pieces.send_timeout(piece, STALLED) => sent.map_err(|_| GivenUp::NotTaken),
            () = self.commits.cut_off() => Err(GivenUp::TooSlow),
            _ = self.ended.wait_for(Option::is_some) => Err(GivenUp::Stopping),
        }
    }
}
