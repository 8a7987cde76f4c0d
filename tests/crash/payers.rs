//! Payers who start payments, decide on the provider's page and return, and shops that refund them.

use std::sync::Arc;
use std::time::Instant;

use serde_json::json;

use crate::journal::{Entry, RefundAsked};
use crate::load::{Client, Trouble};
use crate::wire::{Answer, Ask, Line};

impl Client {
    /// Pays a recent payment.
    pub(crate) async fn start_and_pay(&mut self) -> Result<(), Trouble> {
        let pending = self.pick_in("pending");
        let entry = match pending.filter(|_| self.random.once_in(2)) {
            Some(entry) => Some(entry),
            None => self.pick_in("created"),
        };
        match entry.filter(|entry| entry.direct) {
            Some(entry) => self.pay_for(&entry).await,
            None => Ok(()),
        }
    }

    /// Starts a payment, presses a button and sometimes returns.
    pub(crate) async fn pay_for(&mut self, entry: &Arc<Entry>) -> Result<(), Trouble> {
        let Some(page) = self.start(entry).await? else {
            return Ok(());
        };
        let outcomes = [
            "approve", "approve", "approve", "approve", "decline", "review", "pending",
        ];
        let outcome = self.random.one_of(&outcomes);
        let Some(back) = self.press(entry, &page, outcome).await? else {
            return Ok(());
        };
        if self.random.once_in(2) {
            // The return makes the gateway query the provider.
            let path = back.split_once("/return/").map(|(_, rest)| rest.to_owned());
            let path = format!("/return/{}", path.unwrap_or_default());
            let ask = Ask {
                method: "GET",
                path: &path,
                key: None,
                body: None,
                form: false,
            };
            self.line.call(ask).await?;
        }
        Ok(())
    }

    /// Starts a payment. Returns the address of its payer page, if there is one.
    async fn start(&mut self, entry: &Arc<Entry>) -> Result<Option<String>, Trouble> {
        let (Some(id), Some(method)) = (entry.id(), method(entry)) else {
            return Ok(None);
        };
        self.world.journal.touch(entry);
        let body = json!({ "payment_id": id, "payment_method": method }).to_string();
        let key = self.world.shops[entry.shop].key(entry.live);
        let ask = Ask::post("/api/v1/payments/start", key, &body);
        let answer = self.line.call(ask).await?;
        if answer.status != 200 {
            return Ok(None);
        }
        self.world.acknowledge();
        let url = answer.json()?["redirect_url"]
            .as_str()
            .ok_or_else(|| format!("a start without an address: {answer:?}"))?
            .to_owned();
        if !url.contains("/pay/") {
            return Ok(None);
        }
        if entry.life == self.life
            && let Some(host) = url.split('/').nth(2)
        {
            // Payer pages have another address after each start of the server.
            let _ = self.run.payer.set(host.to_owned());
        }
        entry.told.lock().redirects.insert(url.clone());
        Ok(Some(url))
    }

    /// Presses a button of the payer page. Returns where the browser is redirected.
    async fn press(
        &mut self,
        entry: &Arc<Entry>,
        page: &str,
        outcome: &'static str,
    ) -> Result<Option<String>, Trouble> {
        let Some(host) = self.run.payer.get() else {
            return Ok(None);
        };
        let path: Vec<&str> = page.split('/').skip(3).collect();
        let [account, "pay", token] = path[..] else {
            return Err(Trouble::Wrong(format!("no payer's page: {page}")));
        };
        self.world.journal.touch(entry);
        let body = format!("session={token}&outcome={outcome}");
        let path = format!("/{account}/pay");
        let ask = Ask {
            method: "POST",
            path: &path,
            key: None,
            body: Some(&body),
            form: true,
        };
        let answer = Line::to(host).call(ask).await?;
        if answer.status == 303 {
            self.world.acknowledge();
            entry.told.lock().outcomes.push((page.to_owned(), outcome));
        }
        Ok(answer.location.filter(|_| answer.status == 303))
    }

    /// Refunds a payment, or repeats a refund request.
    pub(crate) async fn give_back(&mut self) -> Result<(), Trouble> {
        let Some(entry) = self.pick_in("completed") else {
            return Ok(());
        };
        let (Some(id), count) = (entry.id(), entry.told.lock().refunds.len()) else {
            return Ok(());
        };
        let nth = match count {
            count if count > 0 && self.random.once_in(3) => self.random.roll(count),
            _ => self.draw_refund(&entry),
        };
        self.world.journal.touch(&entry);
        let body = entry.told.lock().refunds[nth].body.clone();
        let key = self.world.shops[entry.shop].key(entry.live);
        let path = format!("/api/v1/payments/{id}/refunds");
        let sent = Instant::now();
        let answer = self.line.call(Ask::post(&path, key, &body)).await?;
        if hear_refund(&entry, nth, &answer, sent)? {
            self.world.acknowledge();
        }
        Ok(())
    }

    /// Records a refund request with a new key, for the remainder or a part, before it is sent.
    fn draw_refund(&mut self, entry: &Entry) -> usize {
        let part = 1 + self.random.roll(2_000);
        let all = self.random.once_in(3);
        let mut told = entry.told.lock();
        let nth = told.refunds.len();
        let mut body = json!({ "idempotency_key": format!("refund-{nth}-of-{}", entry.number) });
        if !all {
            body["amount"] = json!(format!("{}.{:02}", part / 100, part % 100));
        }
        told.refunds.push(RefundAsked {
            body: body.to_string(),
            told: None,
        });
        nth
    }

    /// A refund or dispute that the shop did not request.
    pub(crate) async fn afterwards(&mut self) -> Result<(), Trouble> {
        let Some(entry) = self.pick_in("completed") else {
            return Ok(());
        };
        let page = entry.told.lock().redirects.last().cloned();
        let outcome = self.random.one_of(&["refund", "dispute"]);
        if let Some(page) = page {
            self.press(&entry, &page, outcome).await?;
        }
        Ok(())
    }
}

/// Records the response to a refund request. Returns whether the refund certainly exists.
pub(crate) fn hear_refund(
    entry: &Entry,
    nth: usize,
    answer: &Answer,
    sent: Instant,
) -> Result<bool, String> {
    let (body, known) = {
        let told = entry.told.lock();
        let asked = &told.refunds[nth];
        // The response to a repeated request can overtake that of the first one.
        let known = |(_, when): &(_, Instant)| *when < sent;
        (asked.body.clone(), asked.told.as_ref().is_some_and(known))
    };
    match answer.status {
        201 if !known => {}
        200 if answer.replayed => {}
        // Not enough money remains, or the account is not available: no refund was created.
        409 | 422 if !known => return Ok(false),
        // Proves nothing.
        status if status >= 429 => return Ok(false),
        _ => {
            return Err(format!(
                "the refund {body} was answered {answer:?}, known: {known}"
            ));
        }
    }
    entry.hear_refund(nth, &answer.json()?, sent)?;
    Ok(true)
}

fn method(entry: &Entry) -> Option<String> {
    let body: serde_json::Value = serde_json::from_str(&entry.body).ok()?;
    body["payment_method"].as_str().map(str::to_owned)
}
