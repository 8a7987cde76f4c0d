//! The host side of the world `method`: a log, and WASI without outside information.

use tracing::Level;

use super::log::LogBudget;
use super::wasi_state::Wasi;
use crate::host::Identity;
use crate::meter::{Meter, Metered};
use crate::shards::ShardArc;
use crate::v0_2::bindings::method::kassette::plugin as wit;

/// State of one call of a method module.
pub(crate) struct MethodState {
    meter: Meter,
    pub(crate) log: LogBudget,
    pub(crate) identity: ShardArc<Identity>,
    pub(crate) wasi: Wasi,
}

impl MethodState {
    pub(crate) fn new(identity: ShardArc<Identity>, wasi: Wasi) -> Self {
        Self {
            meter: Meter::new(&identity.limits),
            log: LogBudget::default(),
            identity,
            wasi,
        }
    }
}

impl Metered for MethodState {
    fn meter(&mut self) -> &mut Meter {
        &mut self.meter
    }

    fn waits(&self) -> u32 {
        0
    }
}

impl wit::types::Host for MethodState {}

impl wit::log::Host for MethodState {
    fn write(&mut self, level: wit::log::Level, message: String) {
        let level = match level {
            wit::log::Level::Debug => Level::DEBUG,
            wit::log::Level::Info => Level::INFO,
            wit::log::Level::Warn => Level::WARN,
            wit::log::Level::Error => Level::ERROR,
        };
        self.log.write(&self.identity, level, &message);
    }
}
