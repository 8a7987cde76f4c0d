//! Figures of payments by period, over all nodes and restarts.

use std::time::Duration;

use kassette_domain::figures::Figures;
use kassette_domain::key::Environment;
use kassette_domain::time::Time;

use crate::StoreFuture;

/// Length of a period.
pub const PERIOD: Duration = Duration::from_secs(5 * 60);
/// Maximum number of expired periods that are removed with an addition.
pub(crate) const MOST_EXPIRED: usize = 64;

/// Figures of an environment in the period that begins at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeriodFigures {
    pub environment: Environment,
    /// Start of the period.
    pub begin: Time,
    pub figures: Figures,
}

/// Storage of figures.
pub trait StoredFigures: Send + Sync {
    /// Adds figures to those of their periods, and removes some periods that begin before `expired`. After a
    /// failure the figures may have been added, so that repeating the call may count them again.
    fn add_figures(&self, added: Vec<PeriodFigures>, expired: Time) -> StoreFuture<'_, ()>;

    /// The figures of an environment's periods that begin at `since` or later and before `until`, oldest first.
    fn figures(
        &self,
        environment: Environment,
        since: Time,
        until: Time,
    ) -> StoreFuture<'_, Vec<(Time, Figures)>>;
}
