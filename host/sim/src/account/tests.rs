//! Books, queries and callbacks of one account, with a clock that the test controls.
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::{config::Environment, session::tests::session, vendor};

/// An account at one provider, with a clock that the test controls.
pub(crate) struct Desk {
    pub(crate) account: Arc<Account>,
    clock: Arc<AtomicU64>,
    folder: tempfile::TempDir,
}

impl Desk {
    pub(crate) fn at(module: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(AtomicU64::new(1_000));
        Self {
            account: open(module, &clock, folder.path()),
            clock,
            folder,
        }
    }

    pub(crate) fn move_clock(&self, to: u64) {
        self.clock.store(to, Ordering::SeqCst);
    }

    /// Opens the same books again, like a new process.
    pub(crate) fn restart(&mut self) {
        let module = self.account.settings.module.clone();
        self.account = open(&module, &self.clock, self.folder.path());
    }

    /// A payment that waits for its payer.
    pub(crate) async fn payment(&self) -> Session {
        let made = Session {
            reference: format!("{:0>36}", self.account.entries().len()),
            expires_at: u64::MAX,
            ..session()
        };
        self.account.create(made.clone()).await.unwrap();
        made
    }

    /// Changes the only payment.
    pub(crate) async fn act(
        &self,
        act: impl FnOnce(&mut Session, &Account, u64) -> Result<Option<Happened>, Denied>
        + Send
        + 'static,
    ) -> Result<Session, Unchanged> {
        let reference = self.session().reference;
        self.account.alter(reference, act).await
    }

    /// The only payment.
    pub(crate) fn session(&self) -> Session {
        let all = self.account.books.lock().newest(None, 2).unwrap();
        let [one] = all.as_slice() else {
            panic!("one payment: {all:?}")
        };
        one.clone()
    }

    /// Bodies of the queued callbacks, oldest first.
    pub(crate) fn callbacks(&self) -> Vec<String> {
        let due = self.account.due(100, &|_| false);
        due.into_iter().map(|callback| callback.body).collect()
    }
}

fn open(module: &str, clock: &Arc<AtomicU64>, folder: &Path) -> Arc<Account> {
    let settings = SimAccount {
        provider_id: "account".into(),
        module: module.into(),
        environment: Environment::Test,
        client_id: "client".into(),
        api_key: "key".into(),
        callback_secret: "secret".into(),
        callback_url: None,
        public_base: None,
    };
    let clock = Arc::clone(clock);
    let clock: Arc<dyn SimClock> = Arc::new(move || clock.load(Ordering::SeqCst));
    let vendor = vendor::by_module(module).unwrap();
    Arc::new(Account::open(settings, vendor, clock, folder, "http://x").unwrap())
}

#[tokio::test]
async fn a_payment_that_is_forgotten_is_unknown_to_every_question_from_then_on() {
    let mut desk = Desk::at("sandbox");
    let made = desk.payment().await;
    let account = &desk.account;
    account.faults.arm(Fault::Forgets, 1);
    assert!(account.by_reference("another").is_none());
    assert!(account.by_reference(&made.reference).is_none());
    let asked = |account: &Account| {
        account.by_reference(&made.reference).is_some()
            || !account.by_attempt(&made.attempt_id).is_empty()
            || account.by_token(&made.token).is_some()
            || account.newest(None, 1).is_some_and(|all| !all.is_empty())
    };
    assert!(!asked(account));
    let changed = account.change(made.reference.clone(), |_, _, _| Ok(None));
    assert!(matches!(changed.await, Err(Unchanged::Unknown)));
    // The books still prevent duplicates.
    assert_eq!(account.entries().len(), 1);
    desk.restart();
    assert!(!asked(&desk.account));
    let other = Session {
        reference: "other".into(),
        key: "other".into(),
        ..made
    };
    desk.account.create(other).await.unwrap();
    assert!(desk.account.by_reference("other").is_some());
}

#[tokio::test]
async fn an_account_lets_every_payment_go_that_it_holds() {
    for module in ["sandbox", "adyen", "stripe"] {
        let desk = Desk::at(module);
        let reference = desk.payment().await.reference;
        assert_eq!(desk.account.release_held().unwrap(), 0, "{module}");
        desk.account
            .choose(reference, Outcome::Review)
            .await
            .unwrap();
        assert!(desk.session().held, "{module}");
        let told = desk.callbacks().len();
        assert_eq!(desk.account.release_held().unwrap(), 1, "{module}");
        assert!(!desk.session().held, "{module}");
        assert_eq!(desk.callbacks().len(), told + 1, "{module}: it is reported");
        assert_eq!(desk.account.release_held().unwrap(), 0, "{module}");
    }
}
