//! Command line of the benchmarks.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};

/// Measurements that run together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Group {
    /// Requests compared with their floors.
    Http,
    /// Signed requests of resellers, compared with unsigned ones and with the store.
    Signed,
    /// Twice the load that the gateway can carry.
    Overload,
    /// Creates and starts during attacks by strangers, and memory.
    Attack,
    /// Whole payments at simulated vendors, until the shop is notified. Takes minutes.
    Payment,
    /// Creates on three nodes with PostgreSQL, compared with one. Takes a minute and needs an installed
    /// PostgreSQL.
    Nodes,
    /// Whole payments for an hour, while modules are replaced and providers and receivers fail. Compares the books
    /// afterwards.
    Hour,
    /// Modules without a server: a call, a swap, the memory of a version.
    Calls,
    /// The store without a server, compared with a raw log and redb.
    Store,
    /// A million payments: speed, memory, disk space and duration of a start. Takes minutes.
    Million,
}

impl Group {
    /// Groups that run by default. The others take minutes.
    const USUAL: [Self; 5] = [
        Self::Http,
        Self::Signed,
        Self::Overload,
        Self::Calls,
        Self::Store,
    ];

    /// Name on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// Measures the gateway and its store, compared with floors of the same run.
#[derive(Debug, Parser)]
pub(crate) struct Options {
    /// Run fewer and shorter rounds: tests the benchmarks, but gives inaccurate figures.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Run only these groups.
    #[arg(long, value_enum)]
    only: Vec<Group>,
    /// Run only cases whose name contains this text, and their floors.
    #[arg(long, value_name = "TEXT")]
    pub(crate) case: Option<String>,
    /// Also write the figures to this file as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Number of payments for the group `million`.
    #[arg(long, default_value_t = 1_000_000, value_name = "COUNT")]
    pub(crate) payments: usize,
    /// Duration of the group `hour` in minutes.
    #[arg(long, default_value_t = 60, value_name = "MINUTES")]
    pub(crate) minutes: u32,
    /// Cargo passes this to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

impl Options {
    /// Groups to measure, in order.
    pub(crate) fn groups(&self) -> Vec<Group> {
        if self.only.is_empty() {
            Group::USUAL.to_vec()
        } else {
            self.only.clone()
        }
    }

    /// Number of repetitions of each measurement, of which the median is taken.
    pub(crate) const fn rounds(&self) -> usize {
        if self.quick { 3 } else { 7 }
    }

    /// Duration of one measurement.
    pub(crate) const fn slice(&self) -> Duration {
        Duration::from_millis(if self.quick { 500 } else { 1500 })
    }
}
