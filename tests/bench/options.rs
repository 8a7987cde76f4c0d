//! What to measure and how long.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};

/// What is measured together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Group {
    /// Requests against their floors.
    Http,
    /// Signed requests of resellers, against unsigned ones and against the store.
    Signed,
    /// Twice the load that can be carried.
    Overload,
    /// Creates and starts beside attacks of strangers, and memory.
    Attack,
    /// Whole payments at simulated vendors, until the shop is told. Takes minutes.
    Payment,
    /// Creates of three nodes on PostgreSQL against those of one. Takes a minute, and an installed PostgreSQL.
    Nodes,
    /// Whole payments for an hour, while modules are replaced and providers and receivers fail, and the books
    /// afterwards.
    Hour,
    /// The modules by themselves: a call, a swap, a version's memory.
    Calls,
    /// The store by itself against a raw log and redb.
    Store,
    /// A million payments: speed, memory, disk, and how long a start takes. Takes minutes.
    Million,
}

impl Group {
    /// Measured where nothing is chosen; what takes minutes has to be asked for.
    const USUAL: [Self; 5] = [
        Self::Http,
        Self::Signed,
        Self::Overload,
        Self::Calls,
        Self::Store,
    ];

    /// As it is written on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// Measures the gateway and its store against floors of the same run.
#[derive(Debug, Parser)]
pub(crate) struct Options {
    /// Fewer and shorter rounds: shows whether it works, says little about how fast.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Measure these alone.
    #[arg(long, value_enum)]
    only: Vec<Group>,
    /// Of the requests, measure those alone whose name holds this text, and their floors.
    #[arg(long, value_name = "TEXT")]
    pub(crate) case: Option<String>,
    /// Write the figures there too.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// How many payments a million is.
    #[arg(long, default_value_t = 1_000_000, value_name = "COUNT")]
    pub(crate) payments: usize,
    /// How long the hour is.
    #[arg(long, default_value_t = 60, value_name = "MINUTES")]
    pub(crate) minutes: u32,
    /// Cargo says so to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

impl Options {
    /// What is to be measured, in order.
    pub(crate) fn groups(&self) -> Vec<Group> {
        if self.only.is_empty() {
            Group::USUAL.to_vec()
        } else {
            self.only.clone()
        }
    }

    /// How often each measurement is repeated; medians are taken over these.
    pub(crate) const fn rounds(&self) -> usize {
        if self.quick { 3 } else { 7 }
    }

    /// How long one measurement takes.
    pub(crate) const fn slice(&self) -> Duration {
        Duration::from_millis(if self.quick { 500 } else { 1500 })
    }
}
