//! State that all modules share: engines, limits, permits, the HTTP client.

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
use crate::quarantine::{FaultSource, Quarantines};
use crate::sampled::Sampled;
use crate::shards;
use crate::text;

/// Maximum time that a provider's call waits for a permit. After it, the call fails as busy.
pub const MAX_WAIT: Duration = Duration::from_millis(250);

/// Shared by all modules and dropped with the last of them.
pub(crate) struct Host {
    pub(crate) engines: Engines,
    pub(crate) artifacts: Artifacts,
    pub(crate) outgoing: Arc<dyn Outgoing>,
    pub(crate) config: RuntimeConfig,
    /// Modules contained in this program, which need no signature.
    pub(crate) shipped: BTreeSet<(Slot, Digest)>,
    /// Permits for methods that all threads share.
    methods: ConcurrencyLimit,
    /// Permits for the methods of each shard.
    shards: Box<[CachePadded<ConcurrencyLimit>]>,
    providers: Semaphore,
    /// Permits for modules with an interpreter: each call takes dozens of the pool's parts.
    interpreted: Semaphore,
    /// Permits that test calls of interpreted providers need in addition: slow providers in test must leave
    /// permits to live.
    interpreted_in_test: Semaphore,
    /// Earlier answers of methods.
    pub(crate) answer_cache: AnswerCache,
    /// Components that were compiled before they are loaded. Used only at the start.
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

    /// Acquires the permits of a call that does not wait for I/O, in its shard if it has one.
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

    /// Acquires the permits of a call that waits for a provider.
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

/// A version of a module: its names in logs and metrics, its limits and its faults.
pub(crate) struct Identity {
    pub(crate) slot: Slot,
    pub(crate) digest: Digest,
    pub(crate) class: ModuleClass,
    pub(crate) limits: CallLimits,
    pub(crate) quarantine: Quarantines,
    /// Whether the version is on trial: its caller handles its failures and log lines, and metrics and logs do not
    /// show them.
    pub(crate) is_trial: bool,
    pub(crate) clock: TimeSource,
    /// Limits log lines of the module.
    pub(crate) log_limit: Sampled,
    /// Limits log lines about failures of `callback`, whose input strangers control.
    pub(crate) callback_failure_limit: Sampled,
}

impl Identity {
    /// Time until which the version is quarantined in an environment. `None` if it may serve there.
    pub(crate) fn quarantined_until(&self, environment: Environment) -> Option<Time> {
        let clock = || (self.clock)();
        self.quarantine.quarantined_until(environment, clock)
    }

    pub(crate) fn is_fit(&self, environment: Environment) -> bool {
        self.quarantined_until(environment).is_none()
    }

    /// Checks that the module's id is the name of its slot.
    pub(crate) fn check_id(&self, says: &str) -> Result<(), LoadError> {
        if says == self.slot.name() {
            return Ok(());
        }
        Err(LoadError::OtherId {
            says: text::cut(says, 40),
            slot: self.slot.clone(),
        })
    }

    /// Histogram of the duration of a function's calls, in seconds.
    pub(crate) fn call_histogram(&self, function: &'static str) -> Histogram {
        if self.is_trial {
            return Histogram::noop();
        }
        let slot = self.slot.as_str().to_owned();
        histogram!("kassette_plugin_call_seconds", "slot" => slot, "function" => function)
    }

    /// Counter of answers from the cache.
    pub(crate) fn answer_cache_hits(&self) -> Counter {
        let slot = self.slot.as_str().to_owned();
        counter!("kassette_plugin_remembered_total", "slot" => slot)
    }

    /// Counts and logs a failed call. `detail` may contain text of the engine, never of the guest. Without a
    /// `source`, the call was not about a payment and does not count for the quarantine.
    pub(crate) fn record_failure(
        &self,
        function: &'static str,
        error: &CallError,
        detail: &str,
        source: Option<&FaultSource>,
    ) {
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
        // Strangers control the input of `callback`.
        let Some(source) = source.filter(|_| function != "callback" && error.blames_module())
        else {
            return;
        };
        let now = (self.clock)();
        let is_reply = error.is_reply();
        if let Some(quarantined) = self.quarantine.record_fault(source, is_reply, now) {
            let slot = self.slot.as_str().to_owned();
            counter!("kassette_plugin_benched_total", "slot" => slot).increment(1);
            tracing::error!(
                plugin.slot = %self.slot,
                plugin.digest = short(&self.digest),
                plugin.faults = quarantined.faults,
                environment = source.environment.as_str(),
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
