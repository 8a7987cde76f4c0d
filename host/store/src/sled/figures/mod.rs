//! Figures of payments by period.

pub(crate) mod checks;

use std::ops::ControlFlow;

use kassette_domain::figures::Figures;
use kassette_domain::key::Environment;
use kassette_domain::time::Time;
use kassette_engine::{IVec, Operation, Span};

use crate::figures::MOST_EXPIRED;
use crate::rows::seal::Sealer;
use crate::rows::source::{RowSource as _, Save as _};
use crate::rows::{records, schema};
use crate::sled::SledStore;
use crate::sled::memory::{Memory, Rows};
use crate::{Fault, PeriodFigures, StoreFuture, StoredFigures};

/// Number of periods that are fetched together.
const AT_ONCE: usize = 16;

/// Adds figures, in parts.
struct AddFigures {
    added: std::vec::IntoIter<PeriodFigures>,
    expired: Time,
}

impl Operation<Memory> for AddFigures {
    /// The remaining figures.
    type Outcome = std::vec::IntoIter<PeriodFigures>;

    fn apply(mut self, rows: &mut Rows<'_>) -> Result<Self::Outcome, Fault> {
        for environment in [Environment::Live, Environment::Test] {
            let old = Span::prefix(&schema::figures_of(environment));
            let old = old.before(&schema::figures(environment, self.expired));
            for (key, _) in rows.scan(&old, MOST_EXPIRED)? {
                rows.remove(key);
            }
        }
        for added in self.added.by_ref() {
            let key = schema::figures(added.environment, added.begin);
            let mut figures: Figures = rows.load(&key)?.unwrap_or_default();
            figures.add(&added.figures);
            rows.save(key, &figures)?;
            if rows.is_enough() {
                break;
            }
        }
        Ok(self.added)
    }
}

/// A row as figures of its period.
fn decode(sealer: &Sealer, key: &[u8], row: &IVec) -> Result<(Time, Figures), Fault> {
    let period = schema::period_of_figures(key);
    let (_, begin) = period.ok_or_else(|| records::damaged(key, "it is of no period"))?;
    Ok((begin, records::decode(sealer, key, row)?))
}

impl StoredFigures for SledStore {
    fn add_figures(&self, added: Vec<PeriodFigures>, expired: Time) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let mut added = added.into_iter();
            while !added.as_slice().is_empty() {
                added = self.operate(AddFigures { added, expired }).await?;
            }
            Ok(())
        })
    }

    fn figures(
        &self,
        environment: Environment,
        since: Time,
        until: Time,
    ) -> StoreFuture<'_, Vec<(Time, Figures)>> {
        let span = Span::prefix(&schema::figures_of(environment));
        let span = span.since(&schema::figures(environment, since));
        let mut span = span.before(&schema::figures(environment, until));
        let mut found = Vec::new();
        self.read_aside(move |view| {
            loop {
                let rows = view.scan(&span, AT_ONCE)?;
                let is_last = rows.len() < AT_ONCE;
                for (key, row) in rows {
                    found.push(decode(view.sealer(), &key, &row)?);
                    span = span.clone().after(&key);
                }
                if is_last {
                    return Ok(ControlFlow::Break(std::mem::take(&mut found)));
                }
                if view.is_enough() {
                    return Ok(ControlFlow::Continue(()));
                }
            }
        })
    }
}
