//! Figures of payments by period.

pub(crate) mod checks;

use kassette_domain::figures::Figures;
use kassette_domain::key::Environment;
use kassette_domain::time::Time;
use kassette_engine::{Operation, Span};

use crate::figures::MOST_EXPIRED;
use crate::rows::source::{RowSource as _, Save as _};
use crate::rows::{records, schema};
use crate::sled::SledStore;
use crate::sled::memory::{Memory, Rows};
use crate::{Fault, PeriodFigures, StoreFuture, StoredFigures};

/// Number of periods per read.
const AT_ONCE: usize = 500;

/// Adds figures.
struct AddFigures {
    added: Vec<PeriodFigures>,
    expired: Time,
}

impl Operation<Memory> for AddFigures {
    type Outcome = ();

    fn apply(self, rows: &mut Rows<'_>) -> Result<(), Fault> {
        for added in self.added {
            let key = schema::figures(added.environment, added.begin);
            let mut figures: Figures = rows.load(&key)?.unwrap_or_default();
            figures.add(&added.figures);
            rows.save(key, &figures)?;
        }
        for environment in [Environment::Live, Environment::Test] {
            let old = Span::prefix(&schema::figures_of(environment));
            let old = old.before(&schema::figures(environment, self.expired));
            for (key, _) in rows.scan(&old, MOST_EXPIRED)? {
                rows.remove(key);
            }
        }
        Ok(())
    }
}

impl StoredFigures for SledStore {
    fn add_figures(&self, added: Vec<PeriodFigures>, expired: Time) -> StoreFuture<'_, ()> {
        self.operate(AddFigures { added, expired })
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
        Box::pin(async move {
            let mut found = Vec::new();
            loop {
                let part = span.clone();
                let read = self.read(move |view| {
                    let rows = view.scan(&part, AT_ONCE)?;
                    let decoded = rows.into_iter().map(|(key, row)| {
                        let figures: Figures = records::decode(view.sealer(), &key, &row)?;
                        Ok::<_, Fault>((key, figures))
                    });
                    decoded.collect::<Result<Vec<_>, _>>()
                });
                let rows = read.await?;
                let is_last = rows.len() < AT_ONCE;
                if let Some((key, _)) = rows.last() {
                    span = span.after(key);
                }
                for (key, figures) in rows {
                    let period = schema::period_of_figures(&key);
                    let period = period.ok_or_else(|| records::damaged(&key, "it is of no period"));
                    found.push((period?.1, figures));
                }
                if is_last {
                    return Ok(found);
                }
            }
        })
    }
}
