//! Hostile methods, and files that are not methods.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cpu_time::ThreadTime;
use kassette_domain::id::Digest;
use kassette_domain::method::MethodId;
use kassette_domain::routing::Availability;
use kassette_runtime::{CallError, Runtime, SlotState};

use crate::cooked::{module, saying};
use crate::neighbour::Felt;
use crate::support::{NOW, context, slot};
use crate::{QUARANTINED_AFTER, cases, expected, name, offers, rounds, runtime, unharmed};

const IDEAL: &str = "method.ideal";
/// Maximum CPU time of a call: the limit of its class, and the time until the call is stopped.
const CONTAINED: Duration = Duration::from_millis(5 + 100);

struct World {
    runtime: Arc<Runtime>,
    /// A version that works.
    good: Vec<u8>,
}

impl World {
    fn new(folder: &std::path::Path) -> Self {
        let world = Self {
            runtime: runtime(folder),
            good: saying("a ok good"),
        };
        world.install(&world.good).unwrap();
        world
    }

    fn install(&self, bytes: &[u8]) -> Result<(), String> {
        let installed = self.runtime.install(&slot(IDEAL), bytes, NOW);
        installed.map(|_| ()).map_err(|error| error.to_string())
    }

    fn reason(&self) -> Result<String, CallError> {
        let module = self.runtime.method(MethodId::Ideal).expect("it serves");
        let verdicts = module.rank(&context(&["a"]))?.expect("no refusal");
        Ok(verdicts[0].outcome.clone().expect("eligible"))
    }

    fn good_serves(&self, case: &str) {
        let serving = self.runtime.method(MethodId::Ideal).unwrap();
        assert_eq!(serving.digest(), Digest::hash(&self.good), "{case}");
        assert_eq!(self.reason().as_deref(), Ok("good"), "{case}");
        unharmed(&self.runtime, case);
    }

    /// Checks that the module is refused every time with the expected reason, and that nothing else changes.
    fn refuses(&self, name: &str, bytes: &[u8], why: &str) {
        for _ in 0..offers() {
            let error = self.install(bytes).expect_err(name);
            assert!(error.contains(why), "{name}: {error}");
            let status = &self.runtime.slots()[0];
            assert_eq!(status.last_error.as_ref(), Some(&error), "{name}");
            self.good_serves(name);
        }
    }

    /// Checks that every call fails as expected, within its limit and 100 ms, until the version is quarantined and
    /// the last good one is used. Repeats this after a new installation.
    fn fails(&self, name: &str, bytes: &[u8], expected: &str) {
        let (kind, stale) = expected.split_once(' ').unwrap_or((expected, ""));
        let mut context = context(&["a"]);
        if stale == "stale" {
            context.candidates[0].health.status = Availability::Stale;
        }
        for _ in 0..rounds().div_ceil(QUARANTINED_AFTER) {
            self.install(&self.good).unwrap();
            self.install(bytes).expect(name);
            for _ in 0..QUARANTINED_AFTER {
                let module = self.runtime.method(MethodId::Ideal).unwrap();
                assert_eq!(module.digest(), Digest::hash(bytes), "{name}");
                let before = ThreadTime::now();
                let fault = module.rank(&context).expect_err(name);
                let used = before.elapsed();
                assert_eq!(fault.kind(), kind, "{name}: {fault}");
                assert!(used < CONTAINED, "{name}: {used:?}");
                unharmed(&self.runtime, name);
            }
            assert_eq!(
                self.runtime.slots()[0].state,
                SlotState::Quarantined,
                "{name}"
            );
            self.good_serves(name);
        }
    }

    /// Checks that the module is called, and that its response does no harm.
    fn says(&self, name: &str, bytes: &[u8], reason: &str) {
        self.install(bytes).expect(name);
        for _ in 0..rounds() {
            assert_eq!(self.reason().as_deref(), Ok(reason), "{name}");
        }
        unharmed(&self.runtime, name);
    }
}

#[test]
fn every_hostile_method_is_contained() {
    let cases = cases(|case| !crate::providers::is_one(case));
    assert!(cases.len() > 30 || crate::picked(), "the set is there");
    let mut felt = Felt::new();
    for case in cases {
        let (name, (kind, what)) = (name(&case), expected(&case));
        let folder = tempfile::tempdir().unwrap();
        let world = World::new(folder.path());
        let bytes = module(&case);
        let neighbour = felt.begin(&world.runtime);
        let began = Instant::now();
        match kind.as_str() {
            "refused" => world.refuses(name, &bytes, &what),
            "fault" => world.fails(name, &bytes, &what),
            "says" => world.says(name, &bytes, &what),
            "labelled" => {
                world.install(&bytes).expect(name);
                let module = world.runtime.method(MethodId::Ideal).unwrap();
                assert_eq!(module.description().label, what, "{name}");
            }
            other => panic!("{name}: expected {other}?"),
        }
        println!("{name}: {kind}, {what}, in {:?}", began.elapsed());
        felt.end(neighbour);
    }
    felt.judge();
}
