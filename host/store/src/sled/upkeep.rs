//! `Upkeep` on sled.

use std::ops::ControlFlow;
use std::sync::Arc;

use kassette_domain::audit::Chain;
use kassette_domain::time::Time;
use kassette_engine::Span;
use tokio::sync::mpsc;

use crate::rows::schema;
use crate::rows::source::RowSource as _;
use crate::sled::retention::Forget;
use crate::sled::store::SledStore;
use crate::sled::{audit, maintenance};
use crate::{Forgotten, NoBackup, Pieces, Retention, StoreFuture, Upkeep};

/// Maximum number of pieces of a backup that wait to be sent, some hundred KiB each.
const WAITING_PIECES: usize = 4;
/// Number of audit log lines fetched per read.
const LINES: usize = 64;

impl Upkeep for SledStore {
    fn backup(&self, now: Time) -> StoreFuture<'_, Result<Pieces, NoBackup>> {
        Box::pin(async move {
            self.readable().await?;
            let Some(commits) = self.engine.subscribe() else {
                return Ok(Err(NoBackup::UnderWay));
            };
            let (sender, pieces) = mpsc::channel(WAITING_PIECES);
            let ended = self.engine.ended();
            tokio::spawn(maintenance::stream(
                self.engine.reader().clone(),
                Arc::clone(&self.secrets),
                commits,
                (now, Arc::clone(&self.backed_up)),
                sender,
                ended,
            ));
            Ok(Ok(pieces))
        })
    }

    fn forget(&self, retention: Retention, now: Time) -> StoreFuture<'_, Forgotten> {
        self.tidy(Forget {
            retention,
            now,
            secrets: Arc::clone(&self.secrets),
        })
    }

    fn verify_audit(&self) -> StoreFuture<'_, Chain> {
        Box::pin(async move {
            let noted: Option<(u64, [u8; 32])> =
                self.read(|view| view.load(schema::AUDIT_END)).await?;
            // Lines that are written in the meantime come after this.
            let end = noted.map_or(0, |(number, _)| number).saturating_add(1);
            let mut span = Span::prefix(schema::AUDIT).before(&schema::audit(end));
            let mut chain = Chain::default();
            self.read_aside(move |view| {
                let rows = view.scan(&span, LINES)?;
                for (key, row) in &rows {
                    let number = schema::audit_number(key).unwrap_or_default();
                    chain.follow(number, audit::decode(view.sealer(), key, row).ok().as_ref());
                }
                let Some((last, _)) = rows.last() else {
                    chain.end(noted);
                    return Ok(ControlFlow::Break(std::mem::take(&mut chain)));
                };
                span = span.clone().after(last);
                Ok(ControlFlow::Continue(()))
            })
            .await
        })
    }
}
