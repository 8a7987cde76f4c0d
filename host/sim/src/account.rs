//! One simulated account: its books, its faults, and the callbacks that changes cause.
use std::{
    net::SocketAddr,
    path::Path,
    sync::{Arc, OnceLock},
};

use parking_lot::Mutex;
use tokio::sync::Notify;
use url::{Host, Url};

use crate::{
    amounts::{self, Scripted},
    books::{BookEntry, Books, Callback},
    capture::Denied,
    config::{SimAccount, SimClock, SimError},
    fault::{Fault, Faults},
    session::{Conflict, Happened, Outcome, Session},
    vendor::Vendor,
};

/// An account and its state.
pub(crate) struct Account {
    pub(crate) settings: SimAccount,
    pub(crate) faults: Faults,
    pub(crate) vendor: Arc<dyn Vendor>,
    clock: Arc<dyn SimClock>,
    books: Mutex<Books>,
    callback_url: Mutex<Option<Url>>,
    /// Address of the account's API listener, once it is bound.
    api: OnceLock<SocketAddr>,
    /// Prefix of payer links, without a trailing slash.
    payer_base: String,
    /// Wakes the delivery task.
    pub(crate) wake: Notify,
}

/// Keys in a payment's `extra`: reason of a decline, permanent failure, waiting for a proof.
pub(crate) const REASON: &str = "reason";
pub(crate) const FAILED: &str = "failed";
pub(crate) const VERIFYING: &str = "verifying";

/// Outcome of a creation.
pub(crate) enum Created {
    New(Session),
    /// The key was used for an identical request.
    Replay(Session),
    /// The key was used for a different request.
    Differs,
}

/// Reason why a payment was not changed.
#[derive(Debug)]
pub(crate) enum Unchanged {
    Unknown,
    Conflict,
    /// The provider refuses this capture.
    Refused,
    Books(SimError),
}

impl Account {
    /// Opens the account's books. `own_base` is the address of the simulator's payer pages, for accounts without a
    /// configured one.
    pub(crate) fn open(
        settings: SimAccount,
        vendor: Arc<dyn Vendor>,
        clock: Arc<dyn SimClock>,
        data_dir: &Path,
        own_base: &str,
    ) -> Result<Self, SimError> {
        let mut books = Books::open(&data_dir.join(format!("{}.jsonl", settings.provider_id)))?;
        books.hurry(clock.now_ms());
        let payer_base = settings.public_base.as_deref().unwrap_or(own_base);
        let account = Self {
            payer_base: payer_base.trim_end_matches('/').to_owned(),
            faults: Faults::default(),
            vendor,
            clock,
            books: Mutex::new(books),
            callback_url: Mutex::new(None),
            api: OnceLock::new(),
            wake: Notify::new(),
            settings,
        };
        if let Some(url) = account.settings.callback_url.clone() {
            account.set_callback_url(&url)?;
        }
        Ok(account)
    }

    pub(crate) fn now(&self) -> u64 {
        self.clock.now_ms()
    }

    /// Records the address of the account's API.
    pub(crate) fn serves_at(&self, address: SocketAddr) {
        let _once = self.api.set(address);
    }

    /// Base address of the account's API. `None` before it is bound.
    pub(crate) fn api_base(&self) -> Option<String> {
        Some(format!("http://{}", self.api.get()?))
    }

    /// Address to which the payer's form is posted.
    pub(crate) fn pay_url(&self) -> String {
        format!("{}/{}/pay", self.payer_base, self.settings.provider_id)
    }

    /// Address of a payment's page.
    pub(crate) fn page_url(&self, session: &Session) -> String {
        format!("{}/{}", self.pay_url(), session.token)
    }

    /// Path of the payer page's stylesheet. Without a host, so that the page's own policy allows it on every host.
    pub(crate) fn style_path(&self) -> String {
        let base = Url::parse(&self.payer_base).map(|url| url.path().to_owned());
        format!(
            "{}/payer.css",
            base.unwrap_or_default().trim_end_matches('/')
        )
    }

    /// Sets the address of callbacks. Only plain http on loopback: a simulator's callbacks are for a gateway under
    /// development and must not leave this machine.
    pub(crate) fn set_callback_url(&self, url: &str) -> Result<(), SimError> {
        let url = Url::parse(url)
            .ok()
            .filter(is_loopback_http)
            .ok_or_else(|| SimError::Account {
                provider_id: self.settings.provider_id.clone(),
                reason: "callback address is not plain http on loopback".to_owned(),
            })?;
        *self.callback_url.lock() = Some(url);
        self.wake.notify_one();
        Ok(())
    }

    pub(crate) fn callback_url(&self) -> Option<Url> {
        self.callback_url.lock().clone()
    }

    pub(crate) fn entries(&self) -> Vec<BookEntry> {
        self.books
            .lock()
            .entries(&self.settings.provider_id, &*self.vendor, self.now())
    }

    /// The payment with this reference, as an API query finds it.
    pub(crate) fn by_reference(&self, reference: &str) -> Option<Session> {
        let mut books = self.books.lock();
        let session = books.by_reference(reference)?.clone();
        self.remembered(&mut books, session)
    }

    /// The payment that a refund's or dispute's id belongs to.
    pub(crate) fn by_part(&self, id: &str) -> Option<Session> {
        let found = self.books.lock().by_part(id).cloned();
        found.filter(|session| !session.forgotten)
    }

    /// The payment with a refund under this idempotency key.
    pub(crate) fn by_refund_key(&self, key: &str) -> Option<Session> {
        let found = self.books.lock().by_refund_key(key).cloned();
        found.filter(|session| !session.forgotten)
    }

    /// All payments with a refund, oldest first.
    pub(crate) fn refunded(&self) -> Vec<Session> {
        self.books.lock().refunded()
    }

    pub(crate) fn by_token(&self, token: &str) -> Option<Session> {
        let found = self.books.lock().by_token(token).cloned();
        found.filter(|session| !session.forgotten)
    }

    pub(crate) fn by_attempt(&self, attempt_id: &str) -> Vec<Session> {
        let mut books = self.books.lock();
        let found = books.by_attempt(attempt_id).into_iter();
        found
            .filter_map(|session| self.remembered(&mut books, session))
            .collect()
    }

    /// The payment, unless the provider has forgotten it or forgets it now. The change is written during the
    /// query, which is acceptable because it happens only once for each ordered fault.
    fn remembered(&self, books: &mut Books, session: Session) -> Option<Session> {
        if session.forgotten {
            return None;
        }
        if !self.faults.take(Fault::Forgets) {
            return Some(session);
        }
        let forgotten = Session {
            forgotten: true,
            ..session
        };
        if let Err(error) = books.commit(vec![forgotten], Vec::new()) {
            tracing::error!(%error, "the simulator's books cannot be written");
        }
        None
    }

    /// At most `most` payments from the newest, or from `from`, to older ones. `None` if `from` does not exist.
    pub(crate) fn newest(&self, from: Option<&str>, most: usize) -> Option<Vec<Session>> {
        self.books.lock().newest(from, most)
    }

    /// The payment created under this idempotency key.
    pub(crate) fn by_key(&self, key: &str) -> Option<Session> {
        self.books.lock().by_key(key).cloned()
    }

    /// Adds a payment, once per idempotency key. It is on the disk when this returns.
    pub(crate) async fn create(self: &Arc<Self>, session: Session) -> Result<Created, Unchanged> {
        self.blocking(move |account| {
            let mut books = account.books.lock();
            if let Some(known) = books.by_key(&session.key) {
                return Ok(if known.fingerprint == session.fingerprint {
                    Created::Replay(known.clone())
                } else {
                    Created::Differs
                });
            }
            if books.is_full() {
                return Err(Unchanged::Conflict);
            }
            books
                .commit(vec![session.clone()], Vec::new())
                .map_err(Unchanged::Books)?;
            Ok(Created::New(session))
        })
        .await
    }

    /// Applies a change that the API requests, and queues the callbacks about it.
    pub(crate) async fn change(
        self: &Arc<Self>,
        reference: String,
        act: impl FnOnce(&mut Session, &Self, u64) -> Result<Option<Happened>, Conflict>
        + Send
        + 'static,
    ) -> Result<Session, Unchanged> {
        self.capturing(reference, |session, account, now| {
            act(session, account, now).map_err(Denied::from)
        })
        .await
    }

    /// Like [`Account::change`], for changes that may call [`Account::capture`], which the provider may refuse.
    pub(crate) async fn capturing(
        self: &Arc<Self>,
        reference: String,
        act: impl FnOnce(&mut Session, &Self, u64) -> Result<Option<Happened>, Denied> + Send + 'static,
    ) -> Result<Session, Unchanged> {
        if self.by_reference(&reference).is_none() {
            return Err(Unchanged::Unknown);
        }
        self.alter(reference, act).await
    }

    /// Changes a payment and queues the callbacks about it, in one write that is on the disk when this returns.
    pub(crate) async fn alter(
        self: &Arc<Self>,
        reference: String,
        act: impl FnOnce(&mut Session, &Self, u64) -> Result<Option<Happened>, Denied> + Send + 'static,
    ) -> Result<Session, Unchanged> {
        self.blocking(move |account| {
            account.change_books(|books, now| {
                let found = books.by_reference(&reference);
                let mut session = found.cloned().ok_or(Unchanged::Unknown)?;
                let (happened, answer) = match act(&mut session, account, now) {
                    Ok(happened) => (happened, Ok(session.clone())),
                    Err(Denied::Voided) => (Some(Happened::Voided), Err(Unchanged::Conflict)),
                    Err(Denied::Conflict) => return Err(Unchanged::Conflict),
                    Err(Denied::Refused) => return Err(Unchanged::Refused),
                };
                Ok((Some((session, happened)), answer))
            })
        })
        .await?
    }

    /// Writes the change of a payment that `act` returns, with the callbacks about it, and wakes the delivery.
    pub(crate) fn change_books<T>(
        &self,
        act: impl FnOnce(&Books, u64) -> Result<(Option<(Session, Option<Happened>)>, T), Unchanged>,
    ) -> Result<T, Unchanged> {
        let now = self.now();
        let mut books = self.books.lock();
        let (change, answer) = act(&books, now)?;
        if let Some((session, happened)) = change {
            let callbacks = match happened {
                Some(happened) => self
                    .callbacks(&session, happened, books.next_callback(), now)
                    .map_err(Unchanged::Books)?,
                None => Vec::new(),
            };
            books
                .commit(vec![session], callbacks)
                .map_err(Unchanged::Books)?;
            self.wake.notify_one();
        }
        Ok(answer)
    }

    /// Executes everything that is due and, with `moved`, everything that waits for a change of the clock. In one
    /// write, because many changes may be due after the clock was moved.
    pub(crate) fn ripen_due(&self, moved: bool) -> Result<(), SimError> {
        let now = self.now();
        let mut books = self.books.lock();
        let (mut changed, mut callbacks) = (Vec::new(), Vec::new());
        let mut number = books.next_callback();
        for mut session in books.ripe(now, moved) {
            while let Some(happened) = self.ripen(&mut session, now, moved) {
                let told = self.callbacks(&session, happened, number, now)?;
                number = number.saturating_add(told.len() as u64);
                callbacks.extend(told);
            }
            changed.push(session);
        }
        if changed.is_empty() {
            return Ok(());
        }
        books.commit(changed, callbacks)
    }

    /// Lets every payment go that the vendor holds for review; returns how many.
    pub(crate) fn release_held(&self) -> Result<usize, SimError> {
        let now = self.now();
        let mut books = self.books.lock();
        let (mut released, mut callbacks) = (Vec::new(), Vec::new());
        let mut number = books.next_callback();
        for mut session in books.held() {
            let chosen = self
                .vendor
                .choose(self, &mut session, Outcome::Approve, now);
            let Ok(happened) = chosen else { continue };
            if let Some(happened) = happened {
                let told = self.callbacks(&session, happened, number, now)?;
                number = number.saturating_add(told.len() as u64);
                callbacks.extend(told);
            }
            released.push(session);
        }
        let count = released.len();
        if count > 0 {
            books.commit(released, callbacks)?;
            self.wake.notify_one();
        }
        Ok(count)
    }

    /// [`Self::ripen_due`] for the task that delivers, where it holds nothing up.
    pub(crate) async fn ripen_in_time(self: &Arc<Self>) -> Result<(), Unchanged> {
        let next = self.books.lock().next_ripe();
        if next.is_none_or(|at| at > self.now()) {
            return Ok(());
        }
        self.blocking(|account| account.ripen_due(false).map_err(Unchanged::Books))
            .await
    }

    /// Time of the provider's next pending change.
    pub(crate) fn next_ripe(&self) -> Option<u64> {
        self.books.lock().next_ripe()
    }

    /// Time of the provider's next confirmation or refusal of a request of the merchant.
    pub(crate) fn confirms_at(&self) -> Option<u64> {
        self.books.lock().confirms_at()
    }

    /// Applies the payer's choice.
    pub(crate) async fn choose(
        self: &Arc<Self>,
        reference: String,
        outcome: Outcome,
    ) -> Result<Session, Unchanged> {
        self.alter(reference, move |session, account, now| {
            let late = outcome == Outcome::Approve && session.is_over(now);
            if late && account.faults.take(Fault::LateMoney) {
                session.reopen(now);
            }
            let happened = account.vendor.choose(account, session, outcome, now)?;
            account.plan(session, now);
            Ok(happened)
        })
        .await
    }

    /// Applies the payer's cancellation.
    pub(crate) async fn give_up(self: &Arc<Self>, reference: String) -> Result<Session, Unchanged> {
        self.alter(reference, |session, account, now| {
            Ok(account.vendor.give_up(session, now)?)
        })
        .await
    }

    /// Applies the script of the payment's amount when its page is opened.
    pub(crate) async fn follow(
        self: &Arc<Self>,
        reference: String,
        scripted: Scripted,
    ) -> Result<Session, Unchanged> {
        if let Scripted::Press(outcome) = scripted {
            return self.choose(reference, outcome).await;
        }
        self.alter(reference, move |session, account, now| {
            let approve = |session: &mut Session, late| {
                let happened = account.approve(session, now, late)?;
                if late {
                    session.take_later(session.due.clone());
                }
                Ok::<_, Conflict>(happened)
            };
            let happened = match scripted {
                Scripted::Press(_) => return Err(Denied::Conflict),
                Scripted::Decline(reason) => {
                    session.extra.insert(REASON.into(), reason.into());
                    session.decline(now)?
                }
                Scripted::Fail => {
                    session.extra.insert(FAILED.into(), String::new());
                    let happened = session.decline(now)?;
                    session.close(now)?;
                    happened
                }
                Scripted::GiveUp => return Ok(account.vendor.give_up(session, now)?),
                Scripted::Process => approve(session, true)?,
                Scripted::Verify => {
                    session.extra.insert(VERIFYING.into(), String::new());
                    approve(session, true)?
                }
                Scripted::Dispute(won) => {
                    let happened = approve(session, false)?;
                    amounts::plan_dispute(session, won, now);
                    happened
                }
            };
            Ok(Some(happened))
        })
        .await
    }

    /// Callbacks that are due, at most `most`, except those in flight.
    pub(crate) fn due(&self, most: usize, except: &dyn Fn(u64) -> bool) -> Vec<Callback> {
        self.books.lock().due(self.now(), most, except)
    }

    /// Due time of the next callback that is not in flight.
    pub(crate) fn next_due(&self, except: &dyn Fn(u64) -> bool) -> Option<u64> {
        self.books.lock().next_due(except)
    }

    /// Records that a callback was delivered or given up (`None`), or will be retried.
    pub(crate) async fn settle(
        self: &Arc<Self>,
        number: u64,
        again: Option<Callback>,
    ) -> Result<(), Unchanged> {
        self.blocking(move |account| {
            account
                .books
                .lock()
                .settle(number, again)
                .map_err(Unchanged::Books)
        })
        .await
    }

    /// Runs work that waits for the disk on the runtime's blocking threads.
    pub(crate) async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, Unchanged> + Send + 'static,
    ) -> Result<T, Unchanged> {
        let account = Arc::clone(self);
        tokio::task::spawn_blocking(move || work(&account))
            .await
            .unwrap_or(Err(Unchanged::Conflict))
    }
}

fn is_loopback_http(url: &Url) -> bool {
    let loopback = match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    };
    url.scheme() == "http" && loopback
}

#[cfg(test)]
pub(crate) mod tests;
