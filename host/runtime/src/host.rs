//! What all modules share: engine, limits, permits, the client.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use crossbeam_utils::CachePadded;
use metrics::{Counter, Histogram, counter, histogram};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};

use kassette_domain::id::{Digest, Slot};
use kassette_domain::key::Environment;
use kassette_domain::time::Time;

use crate::answer_cache::AnswerCache;
use crate::artifacts::Artifacts;
use crate::concurrency_limit::{ConcurrencyLimit, Permit};
use crate::config::{RuntimeConfig, TimeSource};
use crate::engine::{Engines, INTERPRETED_AT_ONCE, LoadedComponent};
use crate::error::{CallError, LoadError, RuntimeError, short};
use crate::limits::{CallLimits, ModuleClass};
use crate::outgoing::Outgoing;
use crate::quarantine::Quarantine;
use crate::sampled::Sampled;
use crate::shards;
use crate::text;

/// How long a provider's call waits for a permit before the answer is "busy".
pub const MAX_WAIT: Duration = Duration::from_millis(250);

/// Shared by every module, and alive as long as one of them is.
pub(crate) struct Host {
    pub(crate) engines: Engines,
    pub(crate) artifacts: Artifacts,
    pub(crate) outgoing: Arc<dyn Outgoing>,
    pub(crate) config: RuntimeConfig,
    /// What this program or one before it brought along: it needs no signature.
    pub(crate) shipped: BTreeSet<(Slot, Digest)>,
    /// For methods that all threads share.
    methods: ConcurrencyLimit,
    /// For the methods of each shard.
    shards: Box<[CachePadded<ConcurrencyLimit>]>,
    providers: Semaphore,
    /// Modules with an interpreter take dozens of the pool's parts each.
    interpreted: Semaphore,
    /// Of those what providers may take in test: their vendors may let all of them wait.
    interpreted_in_test: Semaphore,
    /// What methods answered before.
    pub(crate) answer_cache: AnswerCache,
    /// Components that were compiled before they are loaded, at the start alone.
    pub(crate) precompiled: Mutex<HashMap<Digest, Result<LoadedComponent, LoadError>>>,
}

pub(crate) struct MethodPermits<'a> {
    _permit: Permit<'a>,
    _interpreted: Option<SemaphorePermit<'a>>,
}

pub(crate) struct WaitingPermits<'a> {
    _permit: SemaphorePermit<'a>,
    _interpreted: [Option<SemaphorePermit<'a>>; 2],
}

impl Host {
    pub(crate) fn new(
        config: RuntimeConfig,
        outgoing: Arc<dyn Outgoing>,
    ) -> Result<Self, RuntimeError> {
        let engines = Engines::new(config.pool, &config.limits)?;
        let count = engines.shards();
        let share = shards::share(config.pool.methods, count);
        Ok(Self {
            artifacts: Artifacts::open(config.cache.as_ref(), engines.compiler()),
            engines,
            outgoing,
            methods: ConcurrencyLimit::new(config.pool.methods),
            shards: (0..count)
                .map(|_| CachePadded::new(ConcurrencyLimit::new(share)))
                .collect(),
            providers: Semaphore::new(config.pool.providers as usize),
            interpreted: Semaphore::new(INTERPRETED_AT_ONCE as usize),
            interpreted_in_test: Semaphore::new(INTERPRETED_AT_ONCE as usize / 2),
            answer_cache: AnswerCache::new(config.answer_cache_bytes),
            precompiled: Mutex::default(),
            config,
            shipped: BTreeSet::new(),
        })
    }

    /// Permits for a call that does not wait, in its shard if it has one.
    pub(crate) fn acquire(
        &self,
        class: ModuleClass,
        shard: Option<usize>,
    ) -> Result<MethodPermits<'_>, CallError> {
        let interpreted = match class {
            ModuleClass::Native => None,
            ModuleClass::Interpreted => Some(
                self.interpreted
                    .try_acquire()
                    .map_err(|_| CallError::Busy)?,
            ),
        };
        let limit = shard.and_then(|shard| self.shards.get(shard));
        let limit = limit.map_or(&self.methods, |limit| limit);
        let permit = limit.acquire().ok_or(CallError::Busy)?;
        Ok(MethodPermits {
            _permit: permit,
            _interpreted: interpreted,
        })
    }

    /// Permits for a call that waits for a vendor.
    pub(crate) async fn acquire_waiting(
        &self,
        class: ModuleClass,
        environment: Environment,
    ) -> Result<WaitingPermits<'_>, CallError> {
        let permits = async {
            let interpreted = match class {
                ModuleClass::Native => [None, None],
                ModuleClass::Interpreted => {
                    let in_test = match environment {
                        Environment::Live => None,
                        Environment::Test => Some(self.interpreted_in_test.acquire().await.ok()?),
                    };
                    [in_test, Some(self.interpreted.acquire().await.ok()?)]
                }
            };
            Some(WaitingPermits {
                _permit: self.providers.acquire().await.ok()?,
                _interpreted: interpreted,
            })
        };
        tokio::time::timeout(MAX_WAIT, permits)
            .await
            .ok()
            .flatten()
            .ok_or(CallError::Busy)
    }
}

/// A version of a module: who it is, for logs and metrics, its limits and its faults.
pub(crate) struct Identity {
    pub(crate) slot: Slot,
    pub(crate) digest: Digest,
    pub(crate) class: ModuleClass,
    pub(crate) limits: CallLimits,
    pub(crate) quarantine: Quarantine,
    /// It serves nothing: its failures and its lines are its caller's alone, and no metric's or log's.
    pub(crate) is_trial: bool,
    pub(crate) clock: TimeSource,
    /// What the module writes.
    pub(crate) log_limit: Sampled,
    /// Failures of `callback`, whose input strangers write.
    pub(crate) callback_failure_limit: Sampled,
}

impl Identity {
    /// Until when the version is quarantined; none where it may serve.
    pub(crate) fn quarantined_until(&self) -> Option<Time> {
        self.quarantine.quarantined_until(|| (self.clock)())
    }

    /// A module must call itself what its slot is called.
    pub(crate) fn check_id(&self, says: &str) -> Result<(), LoadError> {
        if says == self.slot.name() {
            return Ok(());
        }
        Err(LoadError::OtherId {
            says: text::cut(says, 40),
            slot: self.slot.clone(),
        })
    }

    /// The histogram of one function's calls, in seconds.
    pub(crate) fn call_histogram(&self, function: &'static str) -> Histogram {
        if self.is_trial {
            return Histogram::noop();
        }
        let slot = self.slot.as_str().to_owned();
        histogram!("kassette_plugin_call_seconds", "slot" => slot, "function" => function)
    }

    /// Counts answers that took no call.
    pub(crate) fn answer_cache_hits(&self) -> Counter {
        let slot = self.slot.as_str().to_owned();
        counter!("kassette_plugin_remembered_total", "slot" => slot)
    }

    /// Counts and logs a call that failed. `detail` may quote the engine, never the guest's reply.
    pub(crate) fn record_failure(&self, function: &'static str, error: &CallError, detail: &str) {
        if self.is_trial {
            return;
        }
        let slot = self.slot.as_str().to_owned();
        counter!("kassette_plugin_faults_total", "slot" => slot, "kind" => error.kind())
            .increment(1);
        let left_out = match function {
            "callback" => self.callback_failure_limit.line(),
            _ => Some(0),
        };
        if let Some(left_out) = left_out {
            tracing::warn!(
                plugin.slot = %self.slot,
                plugin.digest = short(&self.digest),
                plugin.function = function,
                plugin.fault = error.kind(),
                plugin.detail = detail,
                left_out,
                "a call of {} failed: {error}", self.slot,
            );
        }
        // What `describe` does decides whether a module is loaded at all; what comes to `callback`
        // is written by strangers.
        if !error.blames_module() || matches!(function, "describe" | "callback") {
            return;
        }
        if let Some(quarantined) = self.quarantine.record_fault((self.clock)()) {
            let slot = self.slot.as_str().to_owned();
            counter!("kassette_plugin_benched_total", "slot" => slot).increment(1);
            tracing::error!(
                plugin.slot = %self.slot,
                plugin.digest = short(&self.digest),
                plugin.faults = quarantined.faults,
                "version {} of {} failed {} times and is benched until {}; the last good version serves, where there is one",
                short(&self.digest), self.slot, quarantined.faults, quarantined.until.rfc3339(),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use kassette_domain::time::Time;

    use super::*;
    use crate::outgoing::Sending;
    use kassette_http::Request;

    struct Unasked;

    impl Outgoing for Unasked {
        fn send<'a>(&'a self, _: Request<'a>) -> Sending<'a> {
            Box::pin(std::future::pending())
        }
    }

    #[tokio::test]
    async fn interpreted_providers_that_wait_in_test_leave_permits_to_live_ones() {
        let clock = Arc::new(|| Time::from_secs(0));
        let config = RuntimeConfig::new("/nowhere", clock);
        let host = Host::new(config, Arc::new(Unasked)).unwrap();
        let acquire = |environment| host.acquire_waiting(ModuleClass::Interpreted, environment);
        let mut held = Vec::new();
        while let Ok(permits) = acquire(Environment::Test).await {
            held.push(permits);
        }
        assert_eq!(held.len(), INTERPRETED_AT_ONCE as usize / 2);
        assert!(acquire(Environment::Live).await.is_ok());
    }
}
