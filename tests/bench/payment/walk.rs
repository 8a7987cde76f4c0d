//! One payment after the other, as its shop and its payer see it.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde_json::Value;

use super::receiver::TOLD;
use crate::client::{Connection, alone, once};
use crate::requests::{Creates, get, post};

/// Longest wait for a payment that is learned from.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long nothing more may come for a leg to count as over, where it is learned from.
const QUIET: Duration = Duration::from_millis(500);

/// A part of a payment that is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leg {
    Create,
    Start,
    /// The page that the payer comes back to.
    Return,
    /// From the payer's approval until the shop has the completion's event.
    Told,
    /// All of it, with what the provider's page takes.
    Whole,
}

impl Leg {
    pub(super) const ALL: [Self; 5] = [
        Self::Create,
        Self::Start,
        Self::Return,
        Self::Told,
        Self::Whole,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Start => "start",
            Self::Return => "the payer's return",
            Self::Told => "from the approval to the shop",
            Self::Whole => "whole payment",
        }
    }
}

/// Payments that were walked.
pub(super) struct Walked {
    /// All of them.
    pub(super) payments: u64,
    /// Those that were over in time, and the time.
    in_time: (u64, Duration),
    /// Microseconds, by leg.
    legs: [Histogram<u64>; Leg::ALL.len()],
}

impl Default for Walked {
    fn default() -> Self {
        // Up to a minute, three digits.
        let histogram = || Histogram::new_with_bounds(1, 60_000_000, 3).unwrap();
        Self {
            payments: 0,
            in_time: (0, Duration::ZERO),
            legs: std::array::from_fn(|_| histogram()),
        }
    }
}

impl Walked {
    fn record(&mut self, legs: [Duration; Leg::ALL.len()], is_in_time: bool) {
        self.payments += 1;
        self.in_time.0 += u64::from(is_in_time);
        for (histogram, took) in self.legs.iter_mut().zip(legs) {
            let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
            histogram.saturating_record(micros.max(1));
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.payments += other.payments;
        self.in_time.0 += other.in_time.0;
        self.in_time.1 += other.in_time.1;
        for (histogram, more) in self.legs.iter_mut().zip(&other.legs) {
            histogram.add(more).unwrap();
        }
    }

    /// Payments a second.
    pub(super) fn rate(&self) -> f64 {
        self.in_time.0 as f64 / self.in_time.1.as_secs_f64()
    }

    pub(super) fn percentile_ms(&self, leg: Leg, percentile: f64) -> f64 {
        self.legs[leg as usize].value_at_percentile(percentile) as f64 / 1000.0
    }
}

/// A merchant at a server.
pub(super) struct Shop {
    pub(super) server: SocketAddr,
    /// Where its events arrive.
    pub(super) receiver: SocketAddr,
    pub(super) key: String,
    pub(super) method: String,
}

/// What a payer and a shop have open.
struct Connections {
    server: Connection,
    receiver: Connection,
    /// The provider's pages, once their address is known.
    provider: Option<Connection>,
}

impl Shop {
    /// Pays, so many at once, until the time is over; what is under way then is carried to its end.
    pub(super) fn pay(&self, at_once: usize, time: Duration) -> Walked {
        self.pay_up_to(Leg::Whole, at_once, time)
    }

    /// The same, where each payment is left behind after a leg: [`Leg::Create`] or [`Leg::Start`].
    pub(super) fn pay_up_to(&self, last: Leg, at_once: usize, time: Duration) -> Walked {
        alone(async {
            let creates = RefCell::new(Creates::by_method(&self.key, &self.method));
            let walked = RefCell::new(Walked::default());
            let end = Instant::now() + time;
            let payer = async || {
                let mut connections = Connections {
                    server: Connection::open(self.server).await,
                    receiver: Connection::open(self.receiver).await,
                    provider: None,
                };
                while Instant::now() < end {
                    let legs = self.walk(last, &creates, &mut connections).await;
                    let is_in_time = Instant::now() < end;
                    walked.borrow_mut().record(legs, is_in_time);
                }
            };
            let payers = (0..at_once).map(|_| payer());
            futures_util::future::join_all(payers).await;
            let mut walked = walked.take();
            walked.in_time.1 = time;
            walked
        })
    }

    async fn walk(
        &self,
        last: Leg,
        creates: &RefCell<Creates>,
        Connections {
            server,
            receiver,
            provider,
        }: &mut Connections,
    ) -> [Duration; Leg::ALL.len()] {
        let began = Instant::now();
        let id = self.create(creates, server).await;
        let created = Instant::now();
        let mut legs = [Duration::ZERO; Leg::ALL.len()];
        legs[Leg::Create as usize] = created - began;
        if last == Leg::Create {
            return legs;
        }
        let page = self.start(&id, server).await;
        let started = Instant::now();
        legs[Leg::Start as usize] = started - created;
        if last == Leg::Start {
            return legs;
        }
        let back = approve(&page, provider).await;
        let approved = Instant::now();
        let told = get("", &format!("{TOLD}{id}"));
        let told = async {
            assert_eq!(ask(receiver, told).await, 200);
            approved.elapsed()
        };
        let returned = async {
            let status = ask(server, get("", &back)).await;
            assert_eq!(status, 200, "{back}");
            approved.elapsed()
        };
        let (told, returned) = tokio::join!(told, returned);
        legs[Leg::Return as usize] = returned;
        legs[Leg::Told as usize] = told;
        legs[Leg::Whole as usize] = began.elapsed();
        legs
    }

    async fn create(&self, creates: &RefCell<Creates>, server: &mut Connection) -> String {
        let mut request = Vec::new();
        creates.borrow_mut().write(&mut request);
        let status = ask(server, request).await;
        let answer = json(server);
        assert_eq!(status, 201, "{answer}");
        answer["payment_id"].as_str().unwrap().to_owned()
    }

    /// Answers the address of the provider's page.
    async fn start(&self, id: &str, server: &mut Connection) -> String {
        let method = &self.method;
        let body = format!(r#"{{"payment_id":"{id}","payment_method":"{method}"}}"#);
        let status = ask(server, post(&self.key, "/api/v1/payments/start", &body)).await;
        let answer = json(server);
        assert_eq!(status, 200, "{answer}");
        answer["redirect_url"].as_str().unwrap().to_owned()
    }

    /// One payment by itself, whose payer does not come back, so that callbacks alone complete it. Answers its
    /// id and the address of the provider's page.
    pub(super) fn pay_once(&self) -> (String, String) {
        let (id, page) = alone(async {
            let mut server = Connection::open(self.server).await;
            let creates = RefCell::new(Creates::by_method(&self.key, &self.method));
            let id = self.create(&creates, &mut server).await;
            let page = self.start(&id, &mut server).await;
            (id, page)
        });
        std::thread::sleep(QUIET);
        alone(approve(&page, &mut None));
        let began = Instant::now();
        loop {
            let read = get(&self.key, &format!("/api/v1/payments/{id}"));
            let (_, answer) = once(self.server, &read);
            let answer: Value = serde_json::from_slice(&answer).unwrap();
            if answer["status"] == "completed" {
                break;
            }
            assert!(began.elapsed() < PATIENCE, "{answer}");
            std::thread::sleep(QUIET / 10);
        }
        std::thread::sleep(QUIET);
        (id, page)
    }
}

/// The payer presses "approve"; answers the path that he is sent back to.
async fn approve(page: &str, provider: &mut Option<Connection>) -> String {
    let (form, session) = page.rsplit_once('/').unwrap();
    let (host, path) = form
        .strip_prefix("http://")
        .and_then(|rest| rest.split_once('/'))
        .unwrap();
    if provider.is_none() {
        *provider = Some(Connection::open(host.parse().unwrap()).await);
    }
    let provider = provider.as_mut().unwrap();
    let body = format!("session={session}&outcome=approve");
    let request = format!(
        "POST /{path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/x-www-form-urlencoded\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    assert_eq!(ask(provider, request.into()).await, 303, "{page}");
    let back = provider.header("location").unwrap();
    let (_, rest) = back.split_once("://").unwrap();
    rest[rest.find('/').unwrap()..].to_owned()
}

async fn ask(connection: &mut Connection, request: Vec<u8>) -> u16 {
    let fill = |into: &mut Vec<u8>| {
        *into = request;
        true
    };
    connection.ask(fill).await.unwrap()
}

fn json(connection: &Connection) -> Value {
    serde_json::from_slice(connection.body()).unwrap_or_default()
}
