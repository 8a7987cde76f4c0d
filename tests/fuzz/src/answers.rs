//! The function `query` of each provider module, run natively with responses of its vendor.
//!
//! The first line of an input is `PURPOSE METHOD AMOUNT CURRENCY REFERENCE RETURN-QUERY`. The purpose is `sync`,
//! `capture` or `cancel`, the amount is in minor units, and the query string of the payer's return is optional.
//! The vendor's responses follow, each after a line `%%`: `VERB PART-OF-THE-URL STATUS`, then the body on the next
//! lines. A request without a matching response fails as not sent.
//!
//! Rules: the amount of a report occurs in the vendor's responses. Undocumented fields have no effect. An
//! unreadable entry at the end of a list does not hide a payment's money, a refund or a dispute.

use std::rc::Rc;

use kassette_plugin::provider::http::{Request, Response, SendFailure};
use kassette_plugin::provider::secrets::Algorithm;
use kassette_plugin::provider::{
    Account, Attempt, Environment, Money, Payer, Provider, QueryFailure, QueryPurpose, Report, Verb,
};
use kassette_plugin::testing::{Host, with_host};
use serde_json::{Value, json};

use crate::callback::{assert_told, is_taken};
use crate::talk;

/// Time of all calls, in milliseconds since 1970.
const NOW: u64 = 1_800_000_000_000;

/// Maximum bytes of an input. Responses of vendors are long.
const LONGEST: usize = 64 << 10;

/// Id of the attempt in every query.
const ATTEMPT: &str = "00000000000000000000000000000001";

macro_rules! targets {
    ($($name:ident $module:ty),+ $(,)?) => {
        $(pub(crate) fn $name(input: &[u8]) {
            run::<$module>(input);
        })+
    };
}

targets! {
    adyen kassette_provider_adyen::Adyen,
    btcpay kassette_provider_btcpay::BtcPay,
    mollie kassette_provider_mollie::Mollie,
    paypal kassette_provider_paypal::PayPal,
    paysafe kassette_provider_paysafe::Paysafe,
    razorpay kassette_provider_razorpay::Razorpay,
    revolut kassette_provider_revolut::Revolut,
    sandbox kassette_provider_sandbox::Sandbox,
    stripe kassette_provider_stripe::Stripe,
}

/// A response of the vendor.
#[derive(Clone)]
struct Answer {
    verb: String,
    part: String,
    status: u16,
    body: Vec<u8>,
}

/// A vendor whose responses depend only on method and URL.
struct Vendor(Rc<Vec<Answer>>);

impl Host for Vendor {
    fn send(&mut self, request: &Request) -> Result<Response, SendFailure> {
        let verb = match request.verb {
            Verb::Get => "GET",
            Verb::Post => "POST",
            Verb::Put => "PUT",
            Verb::Patch => "PATCH",
            Verb::Delete => "DELETE",
        };
        let fits = |answer: &&Answer| answer.verb == verb && request.url.contains(&answer.part);
        let answer = self.0.iter().find(fits);
        let none = || SendFailure::NotSent(format!("no answer to {verb} {}", request.url));
        answer.map(respond).ok_or_else(none)
    }

    fn ready(&mut self, _: &str) -> bool {
        true
    }

    fn sign(&mut self, _: &str, _: Algorithm, _: &[u8]) -> Option<Vec<u8>> {
        Some(vec![0; 32])
    }
}

fn respond(answer: &Answer) -> Response {
    Response {
        status: answer.status,
        headers: Vec::new(),
        body: answer.body.clone(),
    }
}

fn run<P: Provider>(input: &[u8]) {
    if input.len() > LONGEST {
        return;
    }
    let mut sections = talk::split(input);
    let first = sections
        .next()
        .and_then(|first| std::str::from_utf8(first).ok());
    let Some((purpose, attempt, reference, back)) = first.and_then(asked) else {
        return;
    };
    let answers: Vec<Answer> = sections.filter_map(answer).collect();
    let ask = |answers: Vec<Answer>| {
        let call = || {
            let (account, reference) = (account::<P>(), reference.to_owned());
            let back = back.map(str::to_owned);
            P::query(account, attempt.clone(), Some(reference), purpose, back)
        };
        with_host(Vendor(Rc::new(answers)), call)
    };
    let told = ask(answers.clone());
    talk::show(|| format!("{told:?}"));
    if let Ok(report) = &told
        && is_taken(report)
    {
        assert_told(input, report);
    }
    let changed = |change: fn(&mut Value)| -> Vec<Answer> {
        let each = answers.iter().map(|answer| answer.changed(change));
        each.collect()
    };
    let more = ask(changed(add_fields));
    assert_eq!(format!("{told:?}"), format!("{more:?}"), "with more fields");
    // If no money was reported, the unreadable entry may contain some, and the module may return an error.
    if let Ok(report) = &told
        && report.received.amount > 0
    {
        assert_not_hidden(report, ask(changed(add_entries)));
    }
}

fn account<P: Provider>() -> Account {
    let settings = P::describe().settings.into_iter();
    let settings = settings.filter_map(|spec| match spec.name.as_str() {
        "base-url" => Some((spec.name, "https://vendor.example".to_owned())),
        _ if spec.required => Some((spec.name, "shop".to_owned())),
        _ => None,
    });
    Account {
        id: "vendor-test".into(),
        environment: Environment::Test,
        now: NOW,
        callback_url: "https://pay.example/callbacks/vendor-test".into(),
        settings: settings.collect(),
    }
}

/// The query that the first line describes.
fn asked(line: &str) -> Option<(QueryPurpose, Attempt, &str, Option<&str>)> {
    let mut words = line.trim_end().split(' ');
    let purpose = match words.next()? {
        "capture" => QueryPurpose::Capture,
        "cancel" => QueryPurpose::Cancel,
        _ => QueryPurpose::Sync,
    };
    let method = words.next()?.to_owned();
    let due = Money {
        amount: words.next()?.parse().ok()?,
        currency: words.next()?.to_owned(),
    };
    let attempt = Attempt {
        id: ATTEMPT.into(),
        method,
        due,
        merchant_order: "order-1".into(),
        merchant: "Shop".into(),
        return_url: "https://pay.example/return/t".into(),
        cancel_url: "https://pay.example/return/t?cancelled".into(),
        expires: NOW + 3_600_000,
        payer: Payer {
            email: None,
            ip: None,
            language: None,
            country: None,
        },
        answers: Vec::new(),
    };
    Some((purpose, attempt, words.next()?, words.next()))
}

fn answer(section: &[u8]) -> Option<Answer> {
    let at = memchr::memchr(b'\n', section)?;
    let line = std::str::from_utf8(&section[..at]).ok()?;
    let mut words = line.split(' ');
    Some(Answer {
        verb: words.next()?.to_owned(),
        part: words.next()?.to_owned(),
        status: words.next()?.parse().ok()?,
        body: section[at + 1..].to_vec(),
    })
}

impl Answer {
    /// The same response with a changed body, if it is JSON.
    fn changed(&self, change: fn(&mut Value)) -> Self {
        let mut body = self.body.clone();
        if let Ok(mut value) = serde_json::from_slice(&body) {
            change(&mut value);
            body = value.to_string().into_bytes();
        }
        Self {
            body,
            ..self.clone()
        }
    }
}

/// Objects with the merchant's own fields, to which the vendor adds none.
const OWN: [&str; 2] = ["metadata", "notes"];

/// Adds an undocumented field with the value null to each object of the vendor.
fn add_fields(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(add_fields),
        Value::Object(fields) => {
            let vendors = fields.iter_mut();
            let vendors = vendors.filter(|(name, _)| !OWN.contains(&name.as_str()));
            vendors.for_each(|(_, field)| add_fields(field));
            fields.insert("x_not_documented".into(), Value::Null);
        }
        _ => {}
    }
}

/// Adds an object without known fields to each list of objects.
fn add_entries(value: &mut Value) {
    match value {
        Value::Array(items) => {
            items.iter_mut().for_each(add_entries);
            if items.first().is_some_and(Value::is_object) {
                items.push(json!({ "x_not_documented": null }));
            }
        }
        Value::Object(fields) => fields.values_mut().for_each(add_entries),
        _ => {}
    }
}

/// Fails if a report lacks money, a refund or a dispute of an earlier report.
fn assert_not_hidden(before: &Report, now: Result<Report, QueryFailure>) {
    let now = now.unwrap_or_else(|failure| panic!("an entry hides {before:?}: {failure:?}"));
    assert_eq!(before.received, now.received, "{before:?} became {now:?}");
    for refund in &before.particulars.refunds {
        let found = now
            .particulars
            .refunds
            .iter()
            .any(|one| one.id == refund.id);
        assert!(found, "{} is hidden: {now:?}", refund.id);
    }
    for dispute in &before.particulars.disputes {
        let found = now
            .particulars
            .disputes
            .iter()
            .any(|one| one.id == dispute.id);
        assert!(found, "{} is hidden: {now:?}", dispute.id);
    }
}
